//! What really happened on the wire.
//!
//! Owns an HTTP client wrapper that notes, per request, whether it left this machine and which
//! status came back. `object_store` folds statuses together (409 and 412 are both *already
//! exists*); whether an effect is possible can only be told from the raw answer.

use std::cell::Cell;
use std::future::Future;

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};

tokio::task_local! {
    static LAST: Cell<Wire>;
}

/// Outcome of the last HTTP request of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wire {
    /// Nothing was sent: the failure lies before the request (credentials, configuration).
    #[default]
    NotSent,
    /// No connection was made, so nothing was sent.
    NotConnected,
    /// Sent, perhaps in part, and no answer.
    NoAnswer,
    /// An answer with this status; its body may still have failed.
    Status(u16),
}

/// Runs an operation and tells the outcome of its last HTTP request.
pub(crate) async fn observed<T>(operation: impl Future<Output = T>) -> (T, Wire) {
    LAST.scope(Cell::new(Wire::NotSent), async {
        let result = operation.await;
        (result, LAST.with(Cell::get))
    })
    .await
}

fn note(wire: Wire) {
    // Requests outside of `observed` (token refresh in the background) are nobody's outcome.
    let _ = LAST.try_with(|last| last.set(wire));
}

/// Connects through `reqwest`, noting outcomes.
#[derive(Debug, Default)]
pub(crate) struct NotingConnector;

impl HttpConnector for NotingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Noting(inner)))
    }
}

#[derive(Debug)]
struct Noting(HttpClient);

#[async_trait]
impl HttpService for Noting {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        note(Wire::NoAnswer);
        let result = self.0.execute(request).await;
        match &result {
            Ok(response) => note(Wire::Status(response.status().as_u16())),
            Err(error) if error.kind() == HttpErrorKind::Connect => note(Wire::NotConnected),
            Err(_) => {}
        }
        result
    }
}
