//! What the `pinfold` command promises: how reports look, and what the program itself does.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "functions that tests share are tests too"
)]

mod common;
mod failures;
mod golden;
mod help;
mod html_files;
mod json_keys;
mod layout;
mod pages;
mod profiles;
mod reports;
mod streams;
