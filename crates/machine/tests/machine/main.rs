//! Machines read from small trees of files, and the one that the tests run on.

#[cfg(test)]
mod kinds;
#[cfg(test)]
mod robust;
#[cfg(test)]
mod tree;
