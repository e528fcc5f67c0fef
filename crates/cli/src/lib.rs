//! The `pinfold` command: what the user says, what other crates then do, and how it is shown.
//!
//! The command computes nothing. [`args`] reads the command line; `command` lets `pinfold` and
//! `pinfold-apps` work and gets plain data back; [`mod@print`] turns that into text, JSON or HTML;
//! `output` writes it, whole and once. `progress` shows bars meanwhile.
//!
//! Exit codes: 0 success, also where the reader of a pipe went away; 1 what was asked for failed;
//! 2 it was asked for wrongly. Results go to standard output, everything else to standard error;
//! a command that fails leaves standard output empty.

#![forbid(unsafe_code)]

pub mod args;
mod command;
mod output;
pub mod print;
mod progress;

pub use command::run;
