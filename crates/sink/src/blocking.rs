//! A blocking facade for hosts without an async runtime, such as JNI: waits for one boxed future on
//! the calling thread, with a flag that cancels it.
//!
//! Owns the waiting, not a runtime: futures that need timers or sockets of a runtime must be made
//! inside its context.

use crate::BoxFuture;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Asks a blocking call to give up; shared between threads, set once.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    set: AtomicBool,
    waiting: Mutex<Vec<Thread>>,
}

impl CancelFlag {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets it and wakes every call that waits under it.
    pub fn cancel(&self) {
        self.0.set.store(true, Ordering::SeqCst);
        let waiting = self.0.waiting.lock().unwrap_or_else(|e| e.into_inner());
        waiting.iter().for_each(Thread::unpark);
    }

    /// True once set.
    pub fn is_cancelled(&self) -> bool {
        self.0.set.load(Ordering::SeqCst)
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `future`; `None` when the flag was set first. A cancelled future is dropped, which is
/// safe at any point \[R-18].
pub fn wait<T>(mut future: BoxFuture<'_, T>, cancel: &CancelFlag) -> Option<T> {
    let thread = std::thread::current();
    let id = thread.id();
    cancel
        .0
        .waiting
        .lock()
        .unwrap_or_else(|e| e.into_inner())
        .push(thread.clone());
    let waker = Waker::from(Arc::new(Unpark(thread)));
    let mut context = Context::from_waker(&waker);
    let result = loop {
        if cancel.is_cancelled() {
            break None;
        }
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => break Some(value),
            Poll::Pending => std::thread::park(),
        }
    };
    let mut waiting = cancel.0.waiting.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(at) = waiting.iter().position(|t| t.id() == id) {
        waiting.swap_remove(at);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_future_is_waited_for() {
        assert_eq!(wait(Box::pin(async { 7 }), &CancelFlag::new()), Some(7));
    }

    #[test]
    fn a_future_that_never_ends_is_left_when_cancelled() {
        let flag = CancelFlag::new();
        let other = flag.clone();
        let thread = std::thread::spawn(move || other.cancel());
        assert_eq!(wait(Box::pin(std::future::pending::<()>()), &flag), None);
        thread.join().unwrap();
    }
}
