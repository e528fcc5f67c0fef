//! Profiles of machines: written whole or not at all, never over something else, and used again.

use crate::common::{Folder, output, stderr, stdout, widest};
use pinfold_model::Profile;
use std::fs;

const MEASURE: [&str; 4] = ["bench", "machine", "--quick", "--profile"];

#[test]
fn a_machine_is_measured_written_simulated_and_predicted() {
    let folder = Folder::new("machine");
    let file = folder.file("here.toml");
    fs::write(&file, "").unwrap(); // an empty file is nothing to lose
    let html = folder.file("here.html");
    let run = output(&[&MEASURE[..], &[&file, "--html", &html]].concat());
    assert!(stderr(&run).contains(&format!("the profile is in {file}")));
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(
        widest(&text) <= 100 && text.contains("(simulated)"),
        "{text}"
    );
    assert!(text.contains("link under load PCIe 5.0 x16"), "{text}");
    let page = fs::read_to_string(&html).unwrap();
    assert_eq!(page.matches("<svg").count(), 4);
    let profile = Profile::from_toml(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(profile.name, "h200");
    let device = format!("sim:{file}");
    let dot = stdout(&["run", "dot", "--elements", "1k", "--device", &device]);
    assert!(dot.contains("simulated h200"), "{dot}");
    let model = ["bench", "model", "--points", "20", "--profile", &file];
    let text = stdout(&[&model[..], &["--device", &device]].concat());
    assert!(widest(&text) <= 100 && text.contains("here.toml"), "{text}");
    // A profile is replaced by a newer one.
    let again = output(&[&MEASURE[..], &[&file]].concat());
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert_eq!(folder.names(), ["here.html", "here.toml"]);
}

#[test]
fn a_profile_is_never_written_over_something_else() {
    let folder = Folder::new("precious");
    let file = folder.file("notes.txt");
    fs::write(&file, "precious").unwrap();
    let run = output(&[&MEASURE[..], &[&file]].concat());
    assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
    assert!(run.stdout.is_empty());
    let said = stderr(&run);
    assert!(
        said.contains("left as it is") && said.contains("--profile another"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let run = output(&[&MEASURE[..], &[&folder.file("missing/a.toml")]].concat());
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("the profile cannot be written ("));
    assert_eq!(folder.names(), ["notes.txt"]);
}

#[test]
fn a_broken_profile_and_one_of_another_machine_are_told() {
    let folder = Folder::new("broken");
    let (broken, other) = (folder.file("broken.toml"), folder.file("other.toml"));
    let text = Profile::h200().to_toml().unwrap();
    let lines = text.lines().map(|line| match line.split_once(" = ") {
        Some(("launch_call_ns", _)) => "launch_call_ns = -1",
        _ => line,
    });
    fs::write(&broken, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let device = format!("sim:{broken}");
    for args in [
        &["bench", "model", "--profile", &broken][..],
        &["run", "dot", "--device", &device],
        &["probe", "--device", &device],
    ] {
        let run = output(args);
        assert_eq!(run.status.code(), Some(1), "{args:?} {}", stderr(&run));
        assert!(run.stdout.is_empty());
        let said = stderr(&run);
        assert!(said.contains("broken.toml is no profile"), "{said}");
        assert!(said.contains("calls.launch_call_ns"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let pcie3 = Profile::shipped("pcie3").unwrap().to_toml().unwrap();
    fs::write(&other, pcie3).unwrap();
    let run = output(&["bench", "model", "--points", "20", "--profile", &other]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(stderr(&run).contains("profile pcie3 is of another machine"));
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(text.contains("warning:"), "{text}");
    // Neither a name nor a file.
    let run = output(&["probe", "--device", "sim:nothing.toml"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("sim:FILE"), "{}", stderr(&run));
}
