//! The `pinfold` command. All of it is in the library beside this file, so that tests reach it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pinfold_cli::run(std::env::args_os())
}
