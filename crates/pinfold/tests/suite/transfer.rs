//! The transfer engine: what arrives is what was sent, on every path, whatever fails.

use crate::common::{Machine, Place, everywhere, options};
use pinfold::kernels::gather::{Rows, RowsMut};
use pinfold::kernels::splitmix64;
use pinfold::transfer::{ChunkSizes, Control, Engine, EngineOptions, FileRange, Path, RowOrder};
use pinfold::{Device, Error, Memory};
use pinfold_hal_sim::Policy;
use pinfold_model::Profile;
use std::sync::Arc;
use std::time::Duration;

/// Small slots and two threads, so that a short transfer has many chunks.
fn small_slots() -> EngineOptions {
    let mut options = EngineOptions::default();
    options.threads = Some(2);
    options.slot_bytes = 64 << 10;
    options.slots = 2;
    options
}

fn engine(device: &Device) -> (Memory, Engine) {
    let memory = Memory::new(device);
    let engine = Engine::with_options(&memory, device, &small_slots()).unwrap();
    (memory, engine)
}

fn numbers(n: usize, salt: u64) -> Vec<u32> {
    (0..n as u64).map(|i| splitmix64(i ^ salt) as u32).collect()
}

#[test]
fn slices_of_every_length_come_back_as_they_were() {
    everywhere(1, |place: &Place| {
        let device = place.device(0);
        let (memory, engine) = engine(&device);
        let mut paths = [false; 2];
        for n in [0, 1, 5000, 16_384, 400_000, 700_001] {
            let data = numbers(n, 7);
            let mut on_device = memory.device(n).unwrap();
            let moved = engine.upload(&data, &mut on_device).unwrap();
            assert_eq!(moved.bytes, 4 * n as u64);
            paths[usize::from(moved.path.is_staged())] = true;
            let mut back = vec![0; n];
            engine.download(&on_device, &mut back).unwrap();
            assert!(data == back, "{n} elements under {}", place.name);
        }
        assert_eq!(paths, [true, true]);
    });
}

#[test]
fn a_transfer_waits_for_work_that_was_enqueued_before_it() {
    everywhere(1, |place: &Place| {
        let device = place.device(0);
        let (memory, engine) = engine(&device);
        let stream = device.stream().unwrap();
        let n = 600_000;
        let (first, second) = (numbers(n, 1), numbers(n, 2));
        let mut on_device = memory.device(n).unwrap();
        let mut source = memory.upload(n).unwrap();
        source.write(0, &first).unwrap();
        let mut back = vec![0; n];
        // A download after an upload in another stream, and an upload after that.
        let flight = stream.upload(source, &mut on_device).unwrap();
        engine.download(&on_device, &mut back).unwrap();
        assert!(back == first, "{}", place.name);
        let kept = memory.download(n).unwrap();
        let kept = stream.download(&on_device, kept).unwrap();
        engine.upload(&second, &mut on_device).unwrap();
        assert!(*kept.wait().unwrap() == *first, "{}", place.name);
        engine.download(&on_device, &mut back).unwrap();
        assert!(back == second, "{}", place.name);
        drop(flight);
    });
}

#[test]
fn parts_land_where_they_belong_and_nowhere_else() {
    everywhere(1, |place: &Place| {
        let (memory, engine) = engine(&place.device(0));
        let n = 500_000;
        let mut on_device = memory.device(n).unwrap();
        engine.upload(&numbers(n, 3), &mut on_device).unwrap();
        let part = numbers(200_001, 4);
        engine
            .upload_part(&part, &mut on_device, 12_345, &Control::new())
            .unwrap();
        let mut back = vec![0; 300_000];
        engine
            .download_part(&on_device, 12_000, &mut back, &Control::new())
            .unwrap();
        let old = numbers(n, 3);
        assert!(back[..345] == old[12_000..12_345]);
        assert!(back[345..200_346] == part);
        assert!(back[200_346..] == old[212_346..312_000]);
    });
}

#[test]
fn handles_give_back_what_they_own() {
    everywhere(1, |place: &Place| {
        let (memory, engine) = engine(&place.device(0));
        let data = Arc::<[u32]>::from(numbers(400_000, 5));
        let on_device = memory.device(data.len()).unwrap();
        let up = engine.start_upload(data.clone(), on_device).unwrap();
        let ((_, on_device), moved) = up.wait().unwrap();
        assert_eq!(moved.bytes, 1_600_000);
        let down = engine
            .start_download(on_device, vec![0; data.len()])
            .unwrap();
        let done = down.wait_for(Duration::from_secs(60)).unwrap();
        let ((on_device, back), _) = done.unwrap();
        assert!(back[..] == data[..], "{}", place.name);
        // Dropped early, nothing is freed early and nothing is lost.
        drop(engine.start_download(on_device, back).unwrap());
    });
}

#[test]
fn a_handle_tells_what_is_wrong_and_gives_everything_back() {
    let machine = Machine::new(options(), Policy::Lazy);
    let (memory, engine) = engine(&machine.device(0));
    let on_device = memory.device::<u32>(10).unwrap();
    let refused = engine
        .start_upload(vec![1; 11], on_device)
        .unwrap()
        .wait()
        .unwrap_err();
    assert!(matches!(
        *refused.error,
        Error::Length {
            got: 10,
            want: 11,
            ..
        }
    ));
    assert_eq!(refused.buffer.0.len(), 11);
    drop((refused, engine, memory));
    machine.check_clean();
}

#[test]
fn a_cancelled_transfer_says_how_far_it_came() {
    let machine = Machine::new(options(), Policy::Eager);
    let (memory, engine) = engine(&machine.device(0));
    let data = numbers(1 << 20, 6);
    let mut on_device = memory.device(data.len()).unwrap();
    let control = Control::new();
    control.cancel();
    let error = engine
        .upload_part(&data, &mut on_device, 0, &control)
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Cancelled {
                done_bytes: 0,
                total_bytes: 4_194_304
            }
        ),
        "{error}"
    );
    // The engine works on.
    let control = Control::new();
    engine
        .upload_part(&data, &mut on_device, 0, &control)
        .unwrap();
    assert_eq!(control.progress().done_bytes, 4 << 20);
    assert_eq!(control.progress().total_bytes, 4 << 20);
    drop((on_device, engine, memory));
    machine.check_clean();
}

#[test]
fn files_are_streamed_in_whole_and_in_part_through_the_page_cache_and_past_it() {
    let path = std::env::temp_dir().join(format!("pinfold-{}-stream.bin", std::process::id()));
    let data: Vec<u8> = (0..900_001u64).map(|i| splitmix64(i) as u8).collect();
    std::fs::write(&path, &data).unwrap();
    everywhere(1, |place: &Place| {
        let (memory, engine) = engine(&place.device(0));
        let mut on_device = memory.device::<u8>(data.len()).unwrap();
        for file in [
            FileRange::open(&path).unwrap(),
            FileRange::open(&path).unwrap().direct(),
        ] {
            let control = Control::new();
            engine
                .upload_file(&file, &mut on_device, 0, &control)
                .unwrap();
            assert_eq!(control.progress().done_bytes, data.len() as u64);
            let mut back = vec![0; data.len()];
            engine.download(&on_device, &mut back).unwrap();
            assert!(back == data, "{}", place.name);
        }
        let part = FileRange::open(&path).unwrap().part(1000, 200_000);
        engine
            .upload_file(&part, &mut on_device, 5, &Control::new())
            .unwrap();
        let mut back = vec![0; 200_000];
        engine
            .download_part(&on_device, 5, &mut back, &Control::new())
            .unwrap();
        assert!(back == data[1000..201_000]);
    });
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_file_that_has_become_shorter_is_an_error_that_names_it_and_the_place() {
    let path = std::env::temp_dir().join(format!("pinfold-{}-short.bin", std::process::id()));
    std::fs::write(&path, vec![1; 300_000]).unwrap();
    let machine = Machine::new(options(), Policy::Eager);
    let (memory, engine) = engine(&machine.device(0));
    let mut on_device = memory.device::<u8>(300_000).unwrap();
    let file = FileRange::open(&path).unwrap();
    std::fs::write(&path, vec![1; 100_000]).unwrap();
    let error = engine
        .upload_file(&file, &mut on_device, 0, &Control::new())
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("short.bin") && text.contains("ends before"),
        "{text}"
    );
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(FileRange::open(&path), Err(Error::File { .. })));
    drop((on_device, engine, memory));
    machine.check_clean();
}

#[test]
fn transfers_of_several_threads_share_an_engine() {
    let machine = Machine::new(options(), Policy::Seeded(3));
    let (memory, engine) = engine(&machine.device(0));
    std::thread::scope(|scope| {
        for salt in 0..4 {
            let (memory, engine) = (&memory, engine.clone());
            scope.spawn(move || {
                let data = numbers(300_000 + salt as usize, salt);
                let mut on_device = memory.device(data.len()).unwrap();
                let mut back = vec![0; data.len()];
                engine.upload(&data, &mut on_device).unwrap();
                engine.download(&on_device, &mut back).unwrap();
                assert!(back == data);
            });
        }
    });
    drop((engine, memory));
    machine.check_clean();
}

/// A profile on which 128 MiB are as far beyond the cliff as 8 GiB are on others.
fn early_cliff() -> EngineOptions {
    let mut profile = Profile::h200();
    let footprints = &mut profile.curves.zero_copy_rows.footprint_bytes;
    footprints.iter_mut().for_each(|bytes| *bytes /= 64.0);
    let mut options = EngineOptions::default();
    options.profile = Some(profile);
    options
}

#[test]
fn rows_beyond_the_cliff_go_by_windows_and_arrive_as_they_would_without() {
    const ROW: usize = 32;
    crate::common::once_and_on_real_devices(1, |place: &Place| {
        let device = place.device(0);
        let (memory, stream) = (Memory::new(&device), device.stream().unwrap());
        let engine = Engine::with_options(&memory, &device, &early_cliff()).unwrap();
        let mut carrier = engine.row_carrier(&memory, &stream).unwrap();
        let mut cell = memory.scalar_cell().unwrap();
        let n = 40_000;
        for (rows, want_windows) in [(1000, false), (1 << 20, true)] {
            let mut table = memory.zero_copy::<u32>(rows * ROW).unwrap();
            for (i, word) in table.iter_mut().enumerate() {
                *word = splitmix64(i as u64) as u32;
            }
            let row = |k: usize| (k * 26_227 + 5) % rows;
            let mut list = memory.upload_in_place::<u32>(n).unwrap();
            list.write_each(|k| row(k) as u32);
            let (mut table, list) = (table.lend(), list.lend());
            let mut fetched = memory.device::<u32>(n * ROW).unwrap();
            let as_rows = Rows::new(&table, ROW).unwrap();
            let (reason, found) = carrier
                .gather(&stream, &as_rows, &list, &mut fetched, &mut cell)
                .unwrap();
            assert_eq!(cell.wait(found, Duration::from_secs(60)).unwrap()[0], 0.0);
            let by_windows = matches!(reason.order, RowOrder::ByWindows { .. });
            assert_eq!(by_windows, want_windows, "{reason}");
            let back = memory.download(n * ROW).unwrap();
            let back = stream.download(&fetched, back).unwrap().wait().unwrap();
            let right =
                |i: usize| back[i] == splitmix64((row(i / ROW) * ROW + i % ROW) as u64) as u32;
            assert!((0..n * ROW).all(right), "{reason} under {}", place.name);
            // And back: all fetched rows as zeros.
            stream.fill(&mut fetched, 0).unwrap();
            let as_rows = RowsMut::new(&mut table, ROW).unwrap();
            let (_, found) = carrier
                .scatter(&stream, &fetched, &list, as_rows, &mut cell)
                .unwrap();
            assert_eq!(cell.wait(found, Duration::from_secs(60)).unwrap()[0], 0.0);
            let table = table.wait().unwrap();
            assert!((0..n).all(|k| table[row(k) * ROW..][..ROW].iter().all(|w| *w == 0)));
        }
    });
}

#[test]
fn a_pipeline_turns_every_chunk_into_the_one_with_its_number() {
    everywhere(1, |place: &Place| {
        let (_, engine) = engine(&place.device(0));
        let sizes = ChunkSizes {
            input: 30_000,
            output: 30_000,
        };
        for n in [0, 1, 29_999, 30_000, 100_001] {
            let input = numbers(n, 9);
            let mut output = vec![1; n];
            let control = Control::new();
            engine
                .pipeline(
                    &input,
                    &mut output,
                    sizes,
                    |_| Ok(()),
                    |(), stream, from, to| stream.copy(from, to),
                    &control,
                )
                .unwrap();
            assert!(input == output, "{n} under {}", place.name);
            assert_eq!(control.progress().done_bytes, 4 * n as u64);
        }
        let failing = engine.pipeline(
            &[0u8; 100_000],
            &mut [0u8; 100_000],
            sizes,
            |_| Ok(0),
            |done, stream, from, to| {
                *done += 1;
                match *done {
                    1 => stream.copy(from, to),
                    _ => Err(Error::EventNotRecorded),
                }
            },
            &Control::new(),
        );
        assert!(
            matches!(failing, Err(Error::EventNotRecorded)),
            "{failing:?}"
        );
        let uneven = engine.pipeline(
            &[0u8; 60_000],
            &mut [0u8; 100_000],
            sizes,
            |_| Ok(()),
            |(), stream, from, to| stream.copy(from, to),
            &Control::new(),
        );
        assert!(matches!(
            uneven,
            Err(Error::Length {
                got: 4,
                want: 2,
                ..
            })
        ));
    });
}

#[test]
fn a_slice_that_is_page_locked_already_goes_straight() {
    everywhere(1, |place: &Place| {
        let (memory, engine) = engine(&place.device(0));
        let data = Arc::<[u32]>::from(numbers(700_000, 8));
        let mut on_device = memory.device(data.len()).unwrap();
        let path = |on_device: &mut _| engine.upload(&data, on_device).unwrap().path;
        assert!(path(&mut on_device).is_staged());
        let registered = memory.register(data.clone()).unwrap();
        assert_eq!(path(&mut on_device), Path::Direct);
        let mut back = vec![0; data.len()];
        engine.download(&on_device, &mut back).unwrap();
        assert!(back == data[..], "{}", place.name);
        drop(registered);
        assert!(path(&mut on_device).is_staged());
    });
}

#[test]
fn a_control_that_was_used_before_does_not_count_for_the_next_transfer() {
    let machine = Machine::new(options(), Policy::Eager);
    let (memory, engine) = engine(&machine.device(0));
    let data = numbers(100_000, 1);
    let mut on_device = memory.device(data.len()).unwrap();
    let control = Control::new();
    engine
        .upload_part(&data, &mut on_device, 0, &control)
        .unwrap();
    control.cancel();
    let again = engine.upload_part(&data, &mut on_device, 0, &control);
    assert!(
        matches!(again, Err(Error::Cancelled { done_bytes: 0, .. })),
        "{again:?}"
    );
    drop((on_device, engine, memory));
    machine.check_clean();
}

#[test]
fn work_of_a_pipeline_that_waits_for_its_own_engine_is_refused() {
    let machine = Machine::new(options(), Policy::Eager);
    let (memory, engine) = engine(&machine.device(0));
    let input = numbers(1_000_000, 2);
    let mut output = vec![0u32; input.len()];
    let sizes = ChunkSizes {
        input: 500_000,
        output: 500_000,
    };
    let outcome = engine.pipeline(
        &input,
        &mut output,
        sizes,
        |_| Ok(()),
        |(), _, _, to| engine.upload(&input[..500_000], to).map(drop),
        &Control::new(),
    );
    assert!(matches!(outcome, Err(Error::Threads { .. })), "{outcome:?}");
    engine
        .pipeline(
            &input,
            &mut output,
            sizes,
            |_| Ok(()),
            |(), stream, from, to| stream.copy(from, to),
            &Control::new(),
        )
        .unwrap();
    assert!(input == output);
    drop((engine, memory));
    machine.check_clean();
}

#[test]
fn rows_of_a_table_in_ordinary_memory_arrive_and_go_back() {
    everywhere(1, |place: &Place| {
        let device = place.device(0);
        let (memory, engine) = engine(&device);
        // Rows of 92 bytes: slots begin and end within a row.
        let (row_len, table_rows, n) = (23, 5000, 3001);
        let table = numbers(row_len * table_rows, 3);
        let index: Vec<u64> = (0..n as u64)
            .map(|k| k * 7919 % table_rows as u64)
            .collect();
        let mut rows = memory.device(n * row_len).unwrap();
        let control = Control::new();
        engine
            .upload_rows(&table, row_len, &index, &mut rows, &control)
            .unwrap();
        assert_eq!(control.progress().done_bytes, (4 * n * row_len) as u64);
        let mut back = vec![0; n * row_len];
        engine.download(&rows, &mut back).unwrap();
        let mut spread = vec![0; table.len()];
        let is_listed = |row: usize| index.contains(&(row as u64));
        engine
            .download_rows(&rows, row_len, &index, &mut spread, &control)
            .unwrap();
        for (k, row) in index.iter().enumerate() {
            let from = *row as usize * row_len;
            let want = &table[from..from + row_len];
            assert_eq!(&back[k * row_len..][..row_len], want, "row {k} up");
            assert_eq!(&spread[from..from + row_len], want, "row {k} back");
        }
        let other = (0..table_rows).find(|row| !is_listed(*row)).unwrap();
        assert!(spread[other * row_len..][..row_len].iter().all(|w| *w == 0));
    });
}

#[test]
fn lists_of_rows_that_do_not_fit_are_refused() {
    let machine = Machine::new(options(), Policy::Eager);
    let device = machine.platform.device(0).unwrap();
    let (memory, engine) = engine(&device);
    let control = Control::new();
    let table = numbers(100, 1);
    let mut rows = memory.device(20).unwrap();
    let mut refused = |table: &[u32], row_len, index: &[u32]| {
        engine
            .upload_rows(table, row_len, index, &mut rows, &control)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(&table, 10, &[9, 10]),
        "place 1 of the list names row 10 of a table with 10 rows"
    );
    assert!(refused(&table, 0, &[]).contains("elements of a row"));
    assert!(refused(&table[..99], 10, &[1, 2]).contains("table of whole rows"));
    assert!(refused(&table, 10, &[1]).contains("rows on the device"));
    assert!(refused(&table, usize::MAX, &[1, 2]).contains("table of whole rows"));
}
