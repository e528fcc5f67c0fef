//! JSON has the keys that it was promised to have, and no others.

use crate::common::{PLATE, pinfold, stdout, succeed};
use serde_json::Value;

fn report(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(|k| k.as_str())
        .collect();
    keys.sort_unstable();
    keys
}

const JOB: [&str; 7] = [
    "chosen",
    "device",
    "input",
    "job",
    "placements",
    "reason",
    "strategies",
];
const STRATEGY: [&str; 9] = [
    "bytes_down",
    "bytes_up",
    "error",
    "name",
    "placement",
    "repeats",
    "seconds",
    "seconds_max",
    "seconds_min",
];

#[test]
fn a_job_has_its_keys() {
    let dot = report(&["run", "dot", "--elements", "8k", "--json"]);
    assert_eq!(keys(&dot), JOB);
    assert_eq!(keys(&dot["device"]), ["name", "simulated"]);
    assert_eq!(dot["job"], "dot");
    assert_eq!(dot["input"][0]["name"], "elements");
    assert_eq!(dot["input"][0]["value"], "8192");
    let strategies = dot["strategies"].as_array().unwrap();
    assert!(strategies.len() > 2);
    for strategy in strategies {
        assert_eq!(keys(strategy), STRATEGY);
        assert!(strategy["seconds"].as_f64().unwrap() > 0.0);
        assert!(strategy["error"].as_f64().unwrap() < 1e-11);
        assert_eq!(strategy["bytes_up"], 65536);
    }
    let chosen = dot["chosen"].as_str().unwrap();
    assert!(strategies.iter().any(|s| s["name"] == chosen));
    assert_eq!(strategies.last().unwrap()["name"], "chosen");
}

#[test]
fn a_job_with_steps_has_two_more() {
    let solve = report(&["run", "solve", PLATE, "--json"]);
    assert_eq!(keys(&solve), JOB);
    let mut wanted = [&STRATEGY[..], &["iterations", "seconds_per_iteration"]].concat();
    wanted.sort_unstable();
    for strategy in solve["strategies"].as_array().unwrap() {
        assert_eq!(keys(strategy), wanted);
    }
}

#[test]
fn a_benchmark_has_its_keys_and_prints_nothing_else() {
    let bench = report(&["bench", "pool", "--json"]);
    let wanted = ["bench", "device", "findings", "machine", "rows"];
    assert_eq!(keys(&bench), wanted);
    assert_eq!(keys(&bench["device"]), ["name", "simulated"]);
    assert_eq!(bench["bench"], "pool");
    for fact in ["machine", "findings"] {
        let facts = bench[fact].as_array().unwrap();
        assert!(!facts.is_empty(), "{fact}");
        assert!(facts.iter().all(|f| keys(f) == ["name", "value"]));
    }
    let rows = bench["rows"].as_array().unwrap();
    assert!(rows.len() > 8);
    let row_keys = [
        "group",
        "name",
        "repeats",
        "simulated",
        "unit",
        "value",
        "value_max",
        "value_min",
    ];
    for row in rows {
        assert_eq!(keys(row), row_keys);
        let value = |name: &str| row[name].as_f64().unwrap();
        assert!(value("value_min") > 0.0, "{row}");
        assert!(value("value_min") <= value("value") && value("value") <= value("value_max"));
        // Only what the driver would have done is virtual.
        let driver = row["name"].as_str().unwrap().starts_with("driver's");
        assert_eq!(row["simulated"], driver, "{row}");
        let pairs = row["group"] == "pairs a second" || row["group"] == "control";
        assert_eq!(row["unit"] == "M/s", pairs, "{row}");
    }
}

#[test]
fn a_probe_has_its_keys() {
    let probe = report(&["probe", "--json"]);
    let wanted = [
        "backends",
        "devices",
        "findings",
        "machine",
        "notice",
        "pin_headroom",
    ];
    assert_eq!(keys(&probe), wanted);
    assert_eq!(keys(&probe["devices"][0]), ["choice", "info", "meanings"]);
}

#[test]
fn the_device_is_the_one_asked_for_on_the_line_else_in_the_environment() {
    let name = |variable: Option<&str>, option: &[&str]| {
        let args = [&["run", "dot", "--elements", "1k", "--json"], option].concat();
        let mut command = pinfold(&args);
        match variable {
            Some(value) => command.env("PINFOLD_DEVICE", value),
            None => command.env_remove("PINFOLD_DEVICE"),
        };
        let json = succeed(command.output().unwrap());
        let report: Value = serde_json::from_str(&json).unwrap();
        report["device"]["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(name(None, &["--device", "sim"]), "simulated h200");
    assert_eq!(name(None, &["--device", "sim:pcie3"]), "simulated pcie3");
    assert_eq!(name(Some("sim:pcie3"), &[]), "simulated pcie3");
    assert_eq!(
        name(Some("sim:pcie3"), &["--device", "sim:gh200"]),
        "simulated gh200"
    );
    // A variable that is empty is as good as none.
    assert_eq!(name(Some(""), &[]), name(None, &[]));
}
