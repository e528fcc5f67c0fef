//! What a graph uses lives as long as it, and no longer.

use super::{LEN, LIMIT, of, one};
use crate::common::{Machine, everywhere, options, under_every_policy};
use pinfold::kernels::dot::Dot;
use pinfold::{Error, Graph, Memory, Result};
use pinfold_hal_sim::Policy;
use std::time::Duration;

#[test]
fn r13_the_pool_never_hands_out_a_block_of_a_live_graph() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let mut input = memory.exchange::<u32>(LEN).unwrap();
        input.fill(7);
        let addr = input.as_ptr();
        // Nobody holds the handle any more.
        let mut graph = device
            .capture(|recorder| {
                drop(recorder.upload(input, &mut on_device)?);
                Ok(())
            })
            .unwrap();
        let take = |value: u32| -> Vec<_> {
            let buffer = |_| {
                let mut buffer = memory.exchange::<u32>(LEN).unwrap();
                buffer.fill(value);
                buffer
            };
            (0..64).map(buffer).collect()
        };
        let holds = |buffers: &[pinfold::ExchangeBuffer<u32>]| {
            buffers.iter().any(|buffer| buffer.as_ptr() == addr)
        };
        for round in 0..3 {
            let others = take(round);
            assert!(!holds(&others), "{}", place.name);
            graph.launch(&stream).unwrap();
            drop(others);
            memory.collect().unwrap();
            let down = memory.download(LEN).unwrap();
            let down = stream.download(&on_device, down).unwrap().wait().unwrap();
            assert!(down.iter().all(|v| *v == 7), "{}", place.name);
        }
        drop(graph);
        memory.collect().unwrap();
        assert!(holds(&take(0)), "{}", place.name);
    });
}

#[test]
fn device_memory_and_kernels_that_everybody_else_dropped_stay() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut graph = {
            let mut dot = Dot::load(&memory, &stream).unwrap();
            let mut on_device = memory.device::<f32>(LEN).unwrap();
            let mut sum = memory.device(1).unwrap();
            let mut up = memory.upload(LEN).unwrap();
            up.write_each(|_| 2.0);
            let down = memory.download(1).unwrap();
            let memory = memory.clone();
            device
                .capture(move |recorder| {
                    drop(recorder.upload(up, &mut on_device)?);
                    dot.run(recorder, &on_device, &on_device, &mut sum)?;
                    let down = recorder.download(&sum, down);
                    // Also what is dropped while the thread captures.
                    drop((dot, on_device, sum, memory));
                    Ok(down?)
                })
                .unwrap()
        };
        drop(memory);
        for _ in 0..2 {
            graph.launch(&stream).unwrap();
            let down = graph.host().unwrap();
            assert_eq!(
                f64::from_bits(down[0][0]),
                4.0 * LEN as f64,
                "{}",
                place.name
            );
        }
    });
}

#[test]
fn a_graph_that_is_dropped_in_flight_ends_first() {
    under_every_policy(1, |machine| {
        let (device, memory, stream) = of(&machine.platform);
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        for round in 0..4 {
            let mut up = memory.upload(LEN).unwrap();
            up.write_each(|i| i as u32 ^ round);
            let mut graph = device
                .capture(|recorder| {
                    drop(recorder.upload(up, &mut on_device)?);
                    Ok(())
                })
                .unwrap();
            graph.launch(&stream).unwrap();
            graph.launch(&stream).unwrap();
            drop(graph);
            let down = memory.download(LEN).unwrap();
            let down = stream.download(&on_device, down).unwrap().wait().unwrap();
            assert!(down.iter().enumerate().all(|(i, v)| *v == i as u32 ^ round));
        }
        assert_eq!(machine.sim.live().graphs, 0);
    });
}

#[test]
fn graphs_and_kernels_that_are_dropped_in_a_closure_go_when_the_capture_is_over() {
    under_every_policy(1, |machine| {
        let (device, memory, stream) = of(&machine.platform);
        let [dot, mut used] = [(); 2].map(|()| Dot::load(&memory, &stream).unwrap());
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let floats = memory.device::<f32>(LEN).unwrap();
        let mut sum = memory.device(1).unwrap();
        let up = memory.upload::<u32>(LEN).unwrap();
        let mut earlier = device
            .capture(|recorder| Ok(recorder.upload(up, &mut on_device)?))
            .unwrap();
        earlier.launch(&stream).unwrap();
        let before = machine.sim.live();
        let graph = device
            .capture(|recorder| {
                used.run(recorder, &floats, &floats, &mut sum)?;
                drop((earlier, dot, used));
                recorder.fill(&mut on_device, 1)
            })
            .unwrap();
        // One graph and one module went, and one graph came, which holds the other module.
        let after = machine.sim.live();
        assert_eq!(after.graphs, before.graphs);
        assert_eq!(after.modules, before.modules - 1);
        drop(graph);
        let left = machine.sim.live();
        assert_eq!((left.graphs, left.modules), (0, before.modules - 2));
    });
}

#[test]
fn a_smuggled_handle_gives_nothing_back_while_the_graph_lives() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut on_device = memory.device::<f32>(LEN).unwrap();
        let mut dot = Dot::load(&memory, &stream).unwrap();
        let mut sum = memory.device(1).unwrap();
        let lent = memory.zero_copy::<f32>(LEN).unwrap().lend();
        let up = memory.upload::<f32>(LEN).unwrap();
        let mut smuggled = None;
        let mut graph = device
            .capture(|recorder| {
                dot.run(recorder, &lent, &lent, &mut sum)?;
                let flight = recorder.upload(up, &mut on_device)?;
                // Not even before the graph is there.
                let refused = flight.wait().unwrap_err();
                assert!(matches!(*refused.error, Error::InGraph { .. }));
                smuggled = Some(refused.buffer);
                Ok(())
            })
            .unwrap();
        let up = smuggled.unwrap();
        let refused = |error: Error| match error {
            Error::InGraph { site } => assert!(site.file().ends_with("lifetimes.rs")),
            other => panic!("{}: {other}", place.name),
        };
        for _ in 0..2 {
            refused(lent.is_done().unwrap_err());
            graph.launch(&stream).unwrap();
        }
        let lent = lent.wait().unwrap_err();
        refused(*lent.error);
        let lent = lent.buffer.wait_for(LIMIT).unwrap_err();
        refused(*lent.error);
        let text = up.is_done().unwrap_err().to_string();
        assert!(text.contains("into_kept"), "{text}");
        drop(graph);
        lent.buffer.wait().unwrap().fill(1.0);
        up.wait().unwrap();
    });
}

#[test]
fn a_buffer_of_two_graphs_is_the_hosts_only_once_one_is_gone() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut dot = Dot::load(&memory, &stream).unwrap();
        let mut sum = memory.device(1).unwrap();
        let lent = memory.zero_copy::<f32>(LEN).unwrap().lend();
        let mut first: Graph = device
            .capture(|recorder| dot.run(recorder, &lent, &lent, &mut sum))
            .unwrap();
        let mut second = device
            .capture(|recorder| {
                dot.run(recorder, &lent, &lent, &mut sum)?;
                Ok(lent)
            })
            .unwrap();
        first.launch(&stream).unwrap();
        second.launch(&stream).unwrap();
        assert!(matches!(second.host(), Err(Error::InGraph { .. })));
        let second = second.into_kept().unwrap_err();
        assert!(matches!(*second.error, Error::InGraph { .. }));
        let mut second = second.buffer;
        drop(first);
        second.host().unwrap().fill(1.0);
        second.launch(&stream).unwrap();
        second.into_kept().unwrap().fill(2.0);
    });
}

#[test]
fn a_buffer_that_was_exchanged_keeps_the_graph_from_running() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let mine = memory.exchange::<u32>(LEN).unwrap();
        let mut graph = device
            .capture(|recorder| Ok(recorder.upload(mine, &mut on_device)?))
            .unwrap();
        let mut other = memory.exchange::<u32>(LEN).unwrap();
        std::mem::swap(graph.host().unwrap(), &mut other);
        assert!(matches!(graph.launch(&stream), Err(Error::InGraph { .. })));
        other.fill(5);
        std::mem::swap(graph.host().unwrap(), &mut other);
        graph.launch(&stream).unwrap();
        let down = memory.download(LEN).unwrap();
        let down = stream.download(&on_device, down).unwrap().wait().unwrap();
        assert!(down.iter().all(|v| *v == 5), "{}", place.name);
    });
}

#[test]
fn memory_that_is_only_borrowed_is_refused() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let mut slice = vec![1u32; LEN];
        let outcome = memory.with_registered(&mut slice[..], |buffer| {
            // The graph could leave the scope.
            let captured = device.capture(|recorder| {
                drop(recorder.upload(buffer.lend(), &mut on_device)?);
                Ok(())
            });
            captured.map(drop).map_err(Error::from)
        });
        assert!(
            matches!(outcome, Ok(Err(Error::Borrowed { .. }))),
            "{outcome:?}"
        );
        // Memory of an owner's can be.
        let owned = memory.register(vec![9u32; LEN]).unwrap();
        let mut graph = device
            .capture(|recorder| Ok(recorder.upload(owned.lend(), &mut on_device)?))
            .unwrap();
        graph.launch(&stream).unwrap();
        graph.host().unwrap().as_mut_slice().fill(8);
        let owned = graph.into_kept().unwrap().into_inner().unwrap();
        assert_eq!(owned, Some(vec![8; LEN]), "{}", place.name);
    });
}

#[test]
fn a_buffer_of_a_graph_stays_page_locked_however_long_it_idles() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut on_device = memory.device::<u32>(LEN).unwrap();
        let owned = memory.register(vec![4u32; LEN]).unwrap();
        let idle = memory.register(vec![5u32; LEN]).unwrap();
        let mut graph = device
            .capture(|recorder| {
                let owned = recorder.upload(owned, &mut on_device)?;
                // Nor can anything be unpinned while the thread captures.
                assert_eq!(memory.unpin_idle(Duration::ZERO).blocks, 0);
                Ok(owned)
            })
            .unwrap();
        assert_eq!(memory.unpin_idle(Duration::ZERO).blocks, 1);
        let captured = device.capture(|recorder| {
            let refused = recorder.upload(idle, &mut on_device).unwrap_err();
            assert!(matches!(*refused.error, Error::Capturing { .. }));
            Ok(())
        });
        drop(captured.unwrap());
        graph.launch(&stream).unwrap();
        let down = memory.download(LEN).unwrap();
        let down = stream.download(&on_device, down).unwrap().wait().unwrap();
        assert!(down.iter().all(|v| *v == 4), "{}", place.name);
        let owned = graph.into_kept().unwrap();
        assert_eq!(memory.unpin_idle(Duration::ZERO).blocks, 1);
        assert_eq!(owned.into_inner().unwrap(), Some(vec![4; LEN]));
    });
}

#[test]
fn a_launch_that_is_refused_leaves_all_as_it_was() {
    let machine = Machine::new(options(), Policy::Lazy);
    let (device, memory, stream) = of(&machine.platform);
    let mut on_device = memory.device::<u32>(LEN).unwrap();
    let up = memory.upload::<u32>(LEN).unwrap();
    let mut graph = device
        .capture(|recorder| Ok(recorder.upload(up, &mut on_device)?))
        .unwrap();
    machine.sim.lose_device(pinfold::hal::DeviceId(0));
    let outcome: Result<()> = graph.launch(&stream);
    assert!(outcome.unwrap_err().to_string().contains("start it again"));
    drop((graph, on_device, stream, device));
    drop::<Memory>(memory);
    assert!(machine.platform.driver().hazards().is_empty());
}
