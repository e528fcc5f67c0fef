//! The benchmarks on simulated devices: what they measure arrives whole, and files are read.

use pinfold::{Device, Memory, Platform};
use pinfold_apps::bench::{fresh, gather, replay};
use pinfold_apps::progress::Silent;
use pinfold_model::Profile;

fn device() -> Device {
    Platform::simulated(Profile::h200()).device(0).unwrap()
}

#[test]
fn fresh_data_is_written_and_read_by_every_way_at_every_size() {
    let report = fresh::run(&device(), &mut Silent).unwrap();
    assert_eq!(report.tables.len(), 3);
    for table in &report.tables {
        assert_eq!((table.rows.len(), table.columns.len()), (9, 4));
        let figures = table.rows.iter().flat_map(|row| &row.figures);
        assert!(
            figures
                .into_iter()
                .all(|f| f.is_some_and(|f| f.value > 0.0))
        );
    }
    let device = report.tables[1].figure("1.0 MiB", "streamed, copied");
    let both = report.tables[2].figure("1.0 MiB", "streamed, copied");
    assert!(both.unwrap().value > device.unwrap().value);
}

#[test]
fn scattered_blocks_and_rows_arrive_and_one_launch_beats_a_loop() {
    let report = gather::run(&device(), &mut Silent).unwrap();
    let blocks = report.table("4096 blocks").unwrap();
    let rate = |size, way| blocks.figure(size, way).unwrap().value;
    for size in ["1.0 KiB", "4.0 KiB", "16.0 KiB"] {
        let (one, many) = (rate(size, "one launch"), rate(size, "a loop of copies"));
        assert!(one > 2.0 * many, "{size}");
    }
    let rows = report.table("Random rows").unwrap();
    let figures = rows.rows.iter().flat_map(|row| &row.figures);
    assert!(figures.flatten().all(|figure| figure.value > 0.0));
}

#[test]
fn a_recorded_trace_is_replayed() {
    let path = std::env::temp_dir().join(format!("pinfold-{}-replay.trace", std::process::id()));
    let memory = Memory::new(&device());
    let recording = memory.record_trace(&path).unwrap();
    let kept = memory.zero_copy::<u8>(3 << 20).unwrap();
    for n in 1..50 {
        drop(memory.upload::<u8>(n * 1000).unwrap());
    }
    drop(kept);
    assert_eq!(recording.finish().unwrap(), 100);
    let report = replay::run(&device(), &path, &mut Silent).unwrap();
    let finding = |name: &str| {
        let fact = report.findings.iter().find(|fact| fact.name == name);
        fact.map(|fact| fact.value.clone()).unwrap()
    };
    assert_eq!(finding("events"), "100");
    assert_eq!(finding("asked for at most"), "3.0 MiB");
    assert!(report.value("take, pool").is_some() && report.value("give, driver").is_some());
    std::fs::write(&path, "no trace").unwrap();
    let error = replay::run(&device(), &path, &mut Silent)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("replay.trace") && error.contains("line 1"),
        "{error}"
    );
    std::fs::write(&path, "pinfold-trace 1\n").unwrap();
    assert!(replay::run(&device(), &path, &mut Silent).is_err());
    std::fs::remove_file(&path).unwrap();
}
