//! Pages as lists of objects, and as HTTP archives.

mod har;
mod list;
mod read;

pub(crate) use list::MAX_OBJECTS;
pub use read::page_objects;
