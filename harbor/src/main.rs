//! The `harbor` command.
fn main() {}
