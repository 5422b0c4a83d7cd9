//! What runs over the links beside plain transfers, as far as it is logic: no
//! clock and no sockets here.

pub mod video;
