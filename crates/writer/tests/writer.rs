//! Integration tests of the writer, one binary.

#[path = "writer/support.rs"]
mod support;

#[path = "writer/append.rs"]
mod append;
#[path = "writer/faults.rs"]
mod faults;
#[path = "writer/memory.rs"]
mod memory;
#[path = "writer/routing.rs"]
mod routing;
