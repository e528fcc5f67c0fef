//! The file of `--html` appears whole or not at all.

use crate::common::{Folder, PLATE, output, stderr, stdout, succeed};
use std::fs::{self, File};
use std::io::Read;

const DOT: [&str; 4] = ["run", "dot", "--elements", "1k"];

fn with_html<'a>(args: &[&'a str], file: &'a str) -> Vec<&'a str> {
    [args, &["--html", file]].concat()
}

#[test]
fn every_command_writes_one_beside_its_usual_output() {
    let folder = Folder::new("written");
    let commands = [&["probe"][..], &DOT, &["run", "solve", PLATE]];
    for (number, args) in commands.iter().enumerate() {
        let file = folder.file(&format!("{number}.html"));
        let text = stdout(&with_html(args, &file));
        assert!(text.contains("simulated h200"));
        let html = fs::read_to_string(&file).unwrap();
        assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>"));
        assert!(html.contains("simulated h200"));
    }
    assert_eq!(folder.names(), ["0.html", "1.html", "2.html"]);
}

#[test]
fn an_older_file_is_replaced_at_once_and_never_seen_half_written() {
    let folder = Folder::new("replaced");
    let file = folder.file("a.html");
    fs::write(&file, "the older report").unwrap();
    let mut reader = File::open(&file).unwrap();
    succeed(output(&with_html(&DOT, &file)));
    let mut seen = String::new();
    reader.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "the older report");
    assert!(fs::read_to_string(&file).unwrap().ends_with("</html>"));
    assert_eq!(folder.names(), ["a.html"]);
}

#[test]
fn a_job_that_fails_leaves_nothing_and_touches_nothing() {
    let folder = Folder::new("failed");
    let fails = ["run", "solve", PLATE, "--max-iterations", "3"];
    let run = output(&with_html(&fails, &folder.file("new.html")));
    assert_eq!(run.status.code(), Some(1));
    assert!(folder.names().is_empty(), "{:?}", folder.names());
    let old = folder.file("old.html");
    fs::write(&old, "the older report").unwrap();
    assert_eq!(output(&with_html(&fails, &old)).status.code(), Some(1));
    assert_eq!(fs::read_to_string(&old).unwrap(), "the older report");
    assert_eq!(folder.names(), ["old.html"]);
}

#[test]
fn a_place_that_cannot_be_written_fails_before_the_job_runs() {
    let folder = Folder::new("unwritable");
    fs::write(folder.file("file"), "").unwrap();
    for place in ["missing/a.html", ".", "file/a.html", ".."] {
        let place = folder.file(place);
        // The job itself would fail in another way.
        let run = output(&with_html(&["run", "solve", "missing.mtx"], &place));
        assert_eq!(run.status.code(), Some(1));
        assert!(run.stdout.is_empty());
        let said = stderr(&run);
        let begin = format!("error: {place}: the HTML report cannot be written (");
        assert!(said.starts_with(&begin), "{said}");
        assert!(said.contains("give --html a file"), "{said}");
        assert!(!said.contains("os error"), "{said}");
    }
    assert_eq!(folder.names(), ["file"]);
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_its_file_is_replaced() {
    let folder = Folder::new("linked");
    let (file, link) = (folder.file("file.html"), folder.file("link.html"));
    fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    succeed(output(&with_html(&DOT, &link)));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&file).unwrap().ends_with("</html>"));
}

#[cfg(unix)]
#[test]
fn a_device_is_written_to_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    succeed(output(&with_html(&DOT, "/dev/null")));
    let kind = fs::metadata("/dev/null").unwrap().file_type();
    assert!(kind.is_char_device());
}
