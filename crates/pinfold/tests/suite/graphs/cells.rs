//! Scalars that kernels of a graph publish, launch after launch.

use super::{LEN, LIMIT, one, value};
use crate::common::everywhere;
use pinfold::Error;
use pinfold::kernels::dot::Dot;
use std::time::Duration;

/// The dot product of a round's values with themselves.
fn wanted(round: u32) -> f64 {
    (0..LEN).map(|i| f64::from(value(round, i)).powi(2)).sum()
}

#[test]
fn a_cell_is_set_back_at_each_launch() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut dot = Dot::load(&memory, &stream).unwrap();
        let mut cell = memory.scalar_cell().unwrap();
        let mut input = memory.zero_copy::<f32>(LEN).unwrap();
        let fill = |input: &mut [f32], round| {
            let places = input.iter_mut().enumerate();
            places.for_each(|(i, v)| *v = value(round, i));
        };
        fill(&mut input, 0);
        let input = input.lend();
        let mut graph = device
            .capture(|recorder| {
                let expected = dot.run(recorder, &input, &input, &mut cell)?;
                Ok((expected, input))
            })
            .unwrap();
        let never = cell.wait(&graph.kept().0, Duration::ZERO);
        assert!(matches!(never, Err(Error::Timeout { .. })), "{never:?}");
        for round in 0..20 {
            let (_, input) = graph.host().unwrap();
            fill(input, round);
            graph.launch(&stream).unwrap();
            let [sum, _] = cell.wait(&graph.kept().0, LIMIT).unwrap();
            assert_eq!(sum, wanted(round), "{}", place.name);
        }
    });
}

#[test]
fn a_launch_waits_for_scalars_that_the_one_before_has_still_to_publish() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let other = device.stream().unwrap();
        let mut dot = Dot::load(&memory, &stream).unwrap();
        let mut cell = memory.scalar_cell().unwrap();
        let mut on_device = memory.device::<f32>(LEN).unwrap();
        let up = |round| {
            let mut up = memory.upload(LEN).unwrap();
            up.write_each(|i| value(round, i));
            up
        };
        let mut graph = device
            .capture(|recorder| dot.run(recorder, &on_device, &on_device, &mut cell))
            .unwrap();
        for round in 0..5 {
            drop(other.upload(up(90), &mut on_device).unwrap());
            graph.launch(&stream).unwrap();
            drop(other.upload(up(round), &mut on_device).unwrap());
            graph.launch(&other).unwrap();
            let [sum, _] = cell.wait(graph.kept(), LIMIT).unwrap();
            assert_eq!(sum, wanted(round), "{}", place.name);
        }
    });
}

#[test]
fn graphs_and_direct_launches_share_a_cell() {
    everywhere(1, |place| {
        let (device, memory, stream) = one(place);
        let mut dot = Dot::load(&memory, &stream).unwrap();
        let mut cell = memory.scalar_cell().unwrap();
        let [a, b] = [1, 2].map(|round| {
            let mut up = memory.upload_in_place::<f32>(LEN).unwrap();
            up.write_each(|i| value(round, i));
            up.lend()
        });
        let mut first = device
            .capture(|recorder| dot.run(recorder, &a, &a, &mut cell))
            .unwrap();
        let mut second = device
            .capture(|recorder| dot.run(recorder, &b, &b, &mut cell))
            .unwrap();
        for round in 0..4 {
            first.launch(&stream).unwrap();
            assert_eq!(cell.wait(first.kept(), LIMIT).unwrap()[0], wanted(1));
            let direct = dot.run(&stream, &b, &b, &mut cell).unwrap();
            if round % 2 == 0 {
                let [sum, _] = cell.wait(&direct, LIMIT).unwrap();
                assert_eq!(sum, wanted(2), "{}", place.name);
            }
            second.launch(&stream).unwrap();
            assert_eq!(cell.wait(second.kept(), LIMIT).unwrap()[0], wanted(2));
            // What was overwritten is never taken for anything else.
            assert!(cell.poll(&direct).unwrap().is_none());
            let lost = cell.wait(first.kept(), LIMIT);
            assert!(matches!(lost, Err(Error::Scalar { .. })), "{lost:?}");
        }
    });
}
