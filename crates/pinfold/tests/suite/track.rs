//! The books: by call site, block by block, and what is left at the end.

use crate::common::{Machine, options};
use pinfold::track::{SiteStats, TraceEvent, Tracking, live_memory, read_trace};
use pinfold::{Memory, MemoryKind, UploadBuffer};
use pinfold_hal_sim::Policy;

#[test]
fn every_line_of_code_that_asks_has_books_of_its_own() {
    let machine = Machine::new(options(), Policy::Lazy);
    let memory = Memory::new(&machine.device(0));
    let mut kept = Vec::new();
    for _ in 0..3 {
        kept.push(memory.upload::<u8>(1000).unwrap());
        drop(memory.upload::<u8>(5000).unwrap());
    }
    let result = memory.download::<f32>(8).unwrap();
    let sites = memory.report().sites;
    let of = |taken_bytes| {
        let site = sites.iter().find(|site| site.taken_bytes == taken_bytes);
        *site.unwrap_or_else(|| panic!("no site took {taken_bytes} bytes: {sites:?}"))
    };
    let books = |s: SiteStats| (s.blocks, s.requested_bytes, s.taken);
    assert_eq!(books(of(3000)), (3, 3000, 3));
    assert_eq!(books(of(15000)), (0, 0, 3));
    assert_eq!(books(of(32)), (1, 32, 1));
    assert!(sites.iter().all(|s| s.site.file().ends_with("track.rs")));
    assert_eq!(of(15000).site.line(), of(3000).site.line() + 1);
    assert_eq!(of(32).kind, MemoryKind::PageLocked);
    // Held bytes of sites are those of kinds.
    let held: u64 = sites.iter().map(|s| s.held_bytes).sum();
    let by_kind = memory.stats();
    assert_eq!(held, by_kind.kinds[&MemoryKind::PageLocked].held_bytes);
    drop((kept, result));
    assert_eq!(memory.report().live_blocks(), 0);
    machine_ends(memory, machine);
}

#[test]
fn a_buffer_dropped_on_another_thread_is_off_the_books_of_the_line_that_asked() {
    let machine = Machine::new(options(), Policy::Eager);
    let memory = Memory::new(&machine.device(0));
    let buffers: Vec<UploadBuffer<u8>> = (0..100).map(|_| memory.upload(64).unwrap()).collect();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(buffers));
    });
    let report = memory.report();
    assert_eq!(report.sites.len(), 1);
    assert_eq!((report.sites[0].blocks, report.sites[0].taken), (0, 100));
    let peak = report.stats.kinds[&MemoryKind::PageLocked].held_bytes_peak;
    assert_eq!(peak, 6400);
    machine_ends(memory, machine);
}

#[test]
fn tracked_blocks_are_listed_oldest_first_with_size_age_and_stack() {
    let machine = Machine::new(options(), Policy::Eager);
    let memory = Memory::new(&machine.device(0));
    let untracked = memory.upload::<u8>(7).unwrap();
    memory.set_tracking(Tracking::Blocks);
    let first = memory.upload::<u8>(100).unwrap();
    memory.set_tracking(Tracking::Stacks);
    let second = asks_for_memory(&memory);
    let gone = memory.upload::<u8>(300).unwrap();
    drop(gone);
    let report = memory.report();
    assert_eq!(report.live_blocks(), 3);
    let [a, b] = report.blocks.as_slice() else {
        panic!("{:?}", report.blocks)
    };
    assert_eq!((a.bytes, b.bytes), (100, 200));
    assert!(a.age_s >= b.age_s && b.age_s >= 0.0);
    assert!(a.stack.is_empty());
    // A stripped program has addresses only.
    let named = |frame: &String| frame.contains("asks_for_memory");
    let is_stripped = b.stack.iter().all(|frame| frame.starts_with("0x"));
    assert!(is_stripped || b.stack.iter().any(named), "{:?}", b.stack);
    assert!(!b.stack[0].contains("track::live"), "{:?}", b.stack);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["blocks"][1]["bytes"], 200);
    assert_eq!(json["kinds"]["page-locked"]["blocks"], 3);
    assert_eq!(json["simulated"], true);
    assert!(
        json["sites"][0]["site"]
            .as_str()
            .unwrap()
            .contains("track.rs:")
    );
    let text = report.to_string();
    assert!(
        text.contains("(simulated)") && text.contains(&b.stack[0]),
        "{text}"
    );
    drop((untracked, first, second));
    assert!(memory.report().blocks.is_empty());
    machine_ends(memory, machine);
}

#[inline(never)]
fn asks_for_memory(memory: &Memory) -> UploadBuffer<u8> {
    std::hint::black_box(memory.upload::<u8>(200).unwrap())
}

#[test]
fn a_buffer_that_outlives_its_memory_is_found_at_the_end() {
    let machine = Machine::new(options(), Policy::Eager);
    let memory = Memory::new(&machine.device(0));
    memory.set_tracking(Tracking::Blocks);
    let odd_size = 123_457;
    let forgotten = memory.upload::<u8>(odd_size).unwrap();
    drop(memory);
    let found = |bytes: usize| {
        let reports = live_memory();
        let mut blocks = reports.iter().flat_map(|report| &report.blocks);
        blocks.any(|block| block.bytes == bytes as u64 && block.site.file().ends_with("track.rs"))
    };
    assert!(found(odd_size));
    drop(forgotten);
    assert!(!found(odd_size));
    machine.check_clean();
}

#[test]
fn a_buffer_in_flight_counts_until_the_device_has_let_go_of_it() {
    let machine = Machine::new(options(), Policy::Lazy);
    let device = machine.device(0);
    let memory = Memory::new(&device);
    let stream = device.stream().unwrap();
    let mut target = memory.device::<u8>(4096).unwrap();
    let source = memory.upload::<u8>(4096).unwrap();
    drop(stream.upload(source, &mut target).unwrap());
    let stats = memory.stats();
    assert_eq!(stats.retired_bytes, 4096);
    assert_eq!(stats.kinds[&MemoryKind::PageLocked].blocks, 1);
    stream.synchronize().unwrap();
    memory.collect().unwrap();
    let stats = memory.stats();
    assert_eq!(
        (
            stats.retired_bytes,
            stats.kinds[&MemoryKind::PageLocked].blocks
        ),
        (0, 0)
    );
    drop((target, stream));
    machine_ends(memory, machine);
}

#[test]
fn a_trace_has_what_was_taken_while_it_was_recorded_and_is_read_again() {
    let path = std::env::temp_dir().join(format!("pinfold-{}.trace", std::process::id()));
    let machine = Machine::new(options(), Policy::Eager);
    let memory = Memory::new(&machine.device(0));
    memory.set_tracking(Tracking::Blocks);
    let before = memory.upload::<u8>(1).unwrap();
    memory.set_tracking(Tracking::Sites);
    let recording = memory.record_trace(&path).unwrap();
    assert!(memory.record_trace(&path).is_err());
    let first = memory.upload::<u8>(100).unwrap();
    let second = memory.zero_copy::<u32>(50).unwrap();
    drop((first, before));
    std::thread::scope(|scope| {
        scope.spawn(move || drop(second));
    });
    let third = memory.download::<u8>(7).unwrap();
    assert_eq!(recording.finish().unwrap(), 5);
    drop(third);
    let events = read_trace(&path).unwrap();
    let short: Vec<_> = events
        .iter()
        .map(|event| match event {
            TraceEvent::Take { bytes, kind, .. } => Some((*bytes, *kind)),
            TraceEvent::Give { .. } => None,
        })
        .collect();
    let locked = MemoryKind::PageLocked;
    let mapped = MemoryKind::Mapped;
    let taken = |bytes, kind| Some((bytes, kind));
    assert_eq!(
        short,
        [
            taken(100, locked),
            taken(200, mapped),
            None,
            None,
            taken(7, locked)
        ]
    );
    std::fs::write(&path, "pinfold-trace 1\n- 5 7 0\n").unwrap();
    let error = read_trace(&path).unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
    std::fs::remove_file(&path).unwrap();
    machine_ends(memory, machine);
}

fn machine_ends(memory: Memory, machine: Machine) {
    drop(memory);
    machine.check_clean();
}
