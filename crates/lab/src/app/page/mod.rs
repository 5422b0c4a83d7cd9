//! A page of many objects.

mod load;
mod order;

pub(super) use load::load;
