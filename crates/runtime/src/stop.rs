//! Asking a job to stop: once cleanly, twice at once.

use tokio::sync::watch;

/// The asking side. Clones ask the same job.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<u32>);

/// The listening side.
#[derive(Clone, Debug)]
pub struct StopSignal(watch::Receiver<u32>);

impl Stop {
    /// Both sides. Where the asking side is dropped the job runs on.
    pub fn new() -> (Self, StopSignal) {
        let (sender, receiver) = watch::channel(0);
        (Self(sender), StopSignal(receiver))
    }

    /// First call: a last checkpoint, then a clean end. Second call: stop at once; what is not
    /// published is settled by the next start.
    pub fn request(&self) {
        self.0.send_modify(|count| *count = count.saturating_add(1));
    }
}

impl StopSignal {
    /// A signal that never comes.
    pub fn never() -> Self {
        Stop::new().1
    }

    /// How often it was asked.
    pub fn count(&self) -> u32 {
        *self.0.borrow()
    }

    /// Waits until it was asked so many times.
    pub(crate) async fn wait(&mut self, count: u32) {
        if self.0.wait_for(|asked| *asked >= count).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
