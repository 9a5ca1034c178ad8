//! JSON as Java Paimon writes it: an exact reader and Jackson's pretty printer.
//!
//! Owns syntax only. Numbers stay text until a field asks for an integer, so that nothing is rounded;
//! a repeated key is an error, since two readers could take different values; depth is bounded. The
//! reader never builds a tree: its memory is that of the values the caller keeps.

mod reader;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use writer::Writer;
