//! The contract kept on plain directories: alone, and under the engine.

// A test program has no outside, and its helpers may panic as its tests do.
#![allow(
    unreachable_pub,
    clippy::duplicate_mod, // the contract, on each kind of store
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod crashes;
mod on_s3;
mod rig;

#[path = "."]
mod memory {
    #[path = "contract.rs"]
    mod contract;

    fn store() -> tidegate_storage::Store {
        tidegate_storage::Store::open("memory://", &Default::default()).unwrap()
    }
}

#[path = "."]
mod disk {
    #[path = "contract.rs"]
    mod contract;

    fn store() -> tidegate_storage::Store {
        let dir = tempfile::tempdir().unwrap().keep();
        tidegate_storage::Store::open(dir.to_str().unwrap(), &Default::default()).unwrap()
    }
}

#[path = "."]
mod s3 {
    #[path = "contract.rs"]
    mod contract;

    fn store() -> tidegate_storage::Store {
        crate::rig::s3()
    }
}
