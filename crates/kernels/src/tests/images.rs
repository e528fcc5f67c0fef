//! What every image promises: PTX and twins that fit together, and arithmetic that a twin can
//! repeat.

use crate::{cg, dot, gather, memory, reduce::THREADS_MAX};
use pinfold_hal::ModuleImage;
use std::collections::BTreeMap;

fn images() -> [ModuleImage; 4] {
    [dot::image(), cg::image(), gather::image(), memory::image()]
}

/// Number of parameters of each kernel in the PTX.
fn entries(ptx: &str) -> BTreeMap<&str, usize> {
    ptx.split(".entry ")
        .skip(1)
        .map(|text| {
            let (name, rest) = text.split_once('(').unwrap();
            let (parameters, _) = rest.split_once(')').unwrap();
            (name, parameters.matches(".param").count())
        })
        .collect()
}

/// Number of arguments that a twin takes, by the words of its refusal.
fn arguments(image: &ModuleImage, name: &str) -> usize {
    let refusal = super::run(image, name, (1, 32), vec![]).unwrap_err();
    let words = refusal.to_string();
    words.split(' ').find_map(|word| word.parse().ok()).unwrap()
}

#[test]
fn kernels_and_twins_have_the_same_names_and_numbers_of_arguments() {
    for image in images() {
        let twins: BTreeMap<&str, usize> = image
            .twins
            .iter()
            .map(|twin| (&*twin.name, arguments(&image, &twin.name)))
            .collect();
        assert_eq!(entries(&image.ptx), twins, "{}", image.name);
    }
}

#[test]
fn the_ptx_runs_on_the_oldest_device_and_the_largest_block() {
    for image in images() {
        let count = |what: &str| image.ptx.matches(what).count();
        assert_eq!(count(".target sm_75\n"), 1, "{}", image.name);
        let bound = format!(".maxntid {THREADS_MAX}, 1, 1\n");
        assert_eq!(count(&bound), image.twins.len(), "{}", image.name);
    }
}

#[test]
fn every_operation_in_double_rounds_on_its_own() {
    for image in images() {
        let unfit: Vec<&str> = image
            .ptx
            .split_whitespace()
            .filter(|word| {
                let bare = ["add.f64", "sub.f64", "mul.f64", "mad.f64"].contains(word);
                let atomic = word.starts_with("red.") || word.starts_with("atom.");
                bare || word.starts_with("fma.") || atomic && word.contains(".f")
            })
            .collect();
        assert!(unfit.is_empty(), "{}: {unfit:?}", image.name);
    }
    assert!(dot::image().ptx.contains("mul.rn.f64"));
}

#[test]
fn the_ptx_names_its_source_and_no_machine() {
    for image in images() {
        let source = format!("// Made from kernels/cuda/{}.cu ", image.name);
        assert!(image.ptx.starts_with(&source));
        let comments = image.ptx.lines().filter(|line| line.contains("//"));
        assert_eq!(comments.count(), 1, "{}", image.name);
        assert!(!image.ptx.contains(".file") && !image.ptx.contains(".loc"));
    }
}
