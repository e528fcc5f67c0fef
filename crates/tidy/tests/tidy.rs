//! Every rule on this repository, and on an example that breaks it.

use pinfold_tidy::{Source, rules};
use std::path::Path;

fn assert_none(found: Vec<String>) {
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

fn sources() -> Vec<Source> {
    let sources = Source::all().unwrap_or_default();
    assert!(sources.iter().any(|s| s.path == "crates/hal/src/lib.rs"));
    sources
}

fn file(path: &str, text: &str) -> Source {
    Source {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

/// What a rule says to one file.
fn says(rule: fn(&[Source]) -> Vec<String>, path: &str, text: &str) -> usize {
    rule(&[file(path, text)]).len()
}

const ELSEWHERE: &str = "crates/model/src/lib.rs";

#[test]
fn files_and_lines_are_short() {
    assert_none(rules::long_files(&sources()));
    assert_none(rules::long_lines(&sources()));
    assert_eq!(says(rules::long_files, "a.rs", &"\n".repeat(501)), 1);
    assert_eq!(says(rules::long_lines, "a.cu", &"x".repeat(101)), 1);
    assert_eq!(says(rules::long_lines, "a.rs", &"µ".repeat(100)), 0);
}

#[test]
fn files_say_what_they_are_for() {
    assert_none(rules::front_pages(&sources()));
    assert_eq!(says(rules::front_pages, "a.rs", "use std::fs;"), 1);
}

#[test]
fn nothing_is_left_over_and_nothing_panics() {
    assert_none(rules::leftovers(&sources()));
    assert_none(rules::panics(&sources()));
    assert_eq!(says(rules::leftovers, "a.rs", "//! A.\n// TODO: b"), 1);
    assert_eq!(says(rules::panics, ELSEWHERE, "let a = b.unwrap();"), 1);
    let in_tests = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c.unwrap(); } }";
    assert_eq!(says(rules::panics, ELSEWHERE, in_tests), 0);
}

#[test]
fn unsafe_code_has_its_place_and_its_reason() {
    assert_none(rules::unsafe_without_reason(&sources()));
    assert_none(rules::unsafe_elsewhere(&sources()));
    let bare = "fn a() {\n    unsafe { b() }\n}";
    assert_eq!(says(rules::unsafe_without_reason, ELSEWHERE, bare), 1);
    let reasoned = "fn a() {\n    // SAFETY: c.\n    unsafe { b() }\n}";
    assert_eq!(says(rules::unsafe_without_reason, ELSEWHERE, reasoned), 0);
    assert_eq!(says(rules::unsafe_elsewhere, ELSEWHERE, reasoned), 1);
    assert_eq!(
        says(
            rules::unsafe_elsewhere,
            "crates/hal-cuda/src/event.rs",
            reasoned
        ),
        0
    );
}

#[test]
fn no_file_is_dead() {
    assert_none(rules::dead_files(&sources()));
    let tree = [
        file("crates/a/src/lib.rs", "//! A.\npub mod b;\nmod c;"),
        file("crates/a/src/b.rs", "//! B.\npub(crate) mod d;"),
        file("crates/a/src/b/d.rs", "//! D."),
        file("crates/a/src/c/mod.rs", "//! C."),
        file("crates/a/src/dead.rs", "//! E."),
        file("crates/a/tests/f.rs", "//! F."),
        file("crates/a/data/g.mtx", ""),
    ];
    let found = rules::dead_files(&tree);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert_none(rules::broken_links(&sources(), |path| {
        root.join(path).exists()
    }));
    let page = file("docs/a.md", "[here](b.md#c) [there](https://d) [up](#e)");
    assert_eq!(
        rules::broken_links(std::slice::from_ref(&page), |_| false).len(),
        1
    );
    assert_none(rules::broken_links(&[page], |path| path == "docs/b.md"));
}
