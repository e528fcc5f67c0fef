//! The rules. Each returns what breaks it, as `path:line: what is wrong`.

use crate::Source;
use std::collections::BTreeSet;

/// Most lines of a Rust or CUDA file.
const LINES_MAX: usize = 500;
/// Most characters of a line of a Rust or CUDA file.
const COLUMNS_MAX: usize = 100;
/// How many lines above an unsafe block its reason may begin.
const REASON_WITHIN_LINES: usize = 12;

/// Where unsafe code may stand: the driver contract, its two backends and what wraps them, and in
/// the library only what turns raw memory and driver calls into safe types.
const UNSAFE_ALLOWED: [&str; 14] = [
    "crates/hal/src/",
    "crates/hal-cuda/",
    "crates/hal-sim/",
    "crates/conformance/src/",
    "crates/decorate/",
    "crates/pinfold/src/buffer/",
    "crates/pinfold/src/memory/",
    "crates/pinfold/src/pool/",
    "crates/pinfold/src/stream/",
    "crates/pinfold/src/kernels/",
    "crates/pinfold/src/graph/",
    "crates/pinfold/src/device.rs",
    "crates/pinfold/src/event.rs",
    "crates/pinfold/src/launch.rs",
];

fn is_code(source: &Source) -> bool {
    let endings = [".rs", ".cu", ".cuh"];
    endings.iter().any(|ending| source.path.ends_with(ending))
}

/// Files are short enough to be read.
pub fn long_files(sources: &[Source]) -> Vec<String> {
    let code = sources.iter().filter(|s| is_code(s));
    code.filter_map(|s| {
        let lines = s.text.lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines, at most {LINES_MAX}", s.path))
    })
    .collect()
}

/// Lines are short enough to be read.
pub fn long_lines(sources: &[Source]) -> Vec<String> {
    each_line(sources, is_code, |line| {
        let columns = line.chars().count();
        (columns > COLUMNS_MAX).then(|| format!("{columns} columns, at most {COLUMNS_MAX}"))
    })
}

/// Every Rust file says first what it is for.
pub fn front_pages(sources: &[Source]) -> Vec<String> {
    let rust = sources.iter().filter(|s| s.is_rust());
    rust.filter(|s| !s.text.starts_with("//!"))
        .map(|s| format!("{}:1: does not begin with `//!` and its one job", s.path))
        .collect()
}

/// Nothing half-done is left in the product.
pub fn leftovers(sources: &[Source]) -> Vec<String> {
    let words = ["todo!", "unimplemented!", "dbg!", "TODO", "FIXME", "XXX"];
    let product = |s: &Source| is_code(s) && !s.path.starts_with("crates/tidy/");
    each_line(sources, product, |line| {
        let found = words.iter().find(|word| line.contains(**word))?;
        Some(format!("`{found}` is left"))
    })
}

/// The product does not panic on purpose.
pub fn panics(sources: &[Source]) -> Vec<String> {
    let words = [".unwrap()", ".expect(\"", "panic!("];
    let for_tests = |s: &Source| {
        let (folder, file) = s.path.rsplit_once('/').unwrap_or(("", &s.path));
        let declared = format!("#[cfg(test)]\nmod {};", file.trim_end_matches(".rs"));
        let mut beside = sources
            .iter()
            .filter(|other| other.path.starts_with(folder));
        s.is_test() || beside.any(|other| other.text.contains(&declared))
    };
    let product = sources.iter().filter(|s| s.is_rust() && !for_tests(s));
    let lines = product.flat_map(|s| s.product_lines().map(move |line| (s, line)));
    let code = lines.filter(|(_, (_, line))| !line.trim_start().starts_with("//"));
    code.filter_map(|(s, (n, line))| {
        let found = words.iter().find(|word| line.contains(**word))?;
        Some(format!("{}:{n}: `{found}` outside of tests", s.path))
    })
    .collect()
}

/// True where the line makes something unsafe that needs a reason beside it.
fn opens_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["unsafe {", "unsafe impl"]
        .iter()
        .any(|word| code.contains(word))
}

/// Every unsafe block says why it is right.
pub fn unsafe_without_reason(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|s| s.is_rust()) {
        let lines: Vec<&str> = source.text.lines().collect();
        for (n, line) in lines.iter().enumerate().filter(|(_, l)| opens_unsafe(l)) {
            let above = &lines[n.saturating_sub(REASON_WITHIN_LINES)..=n];
            if !line.contains('"') && !above.iter().any(|l| l.contains("SAFETY:")) {
                found.push(format!("{}:{}: unsafe without SAFETY:", source.path, n + 1));
            }
        }
    }
    found
}

/// Unsafe code stands only where it may.
pub fn unsafe_elsewhere(sources: &[Source]) -> Vec<String> {
    let here = |s: &Source| {
        let allowed = UNSAFE_ALLOWED.iter().any(|place| s.path.starts_with(place));
        s.is_rust() && !allowed && !s.is_test()
    };
    each_line(sources, here, |line| {
        (opens_unsafe(line) && !line.trim_start().starts_with("//"))
            .then(|| "unsafe code does not belong here".to_owned())
    })
}

/// Every Rust file belongs to a crate, and every kernel, profile and data file is used.
pub fn dead_files(sources: &[Source]) -> Vec<String> {
    let rust: BTreeSet<String> = reachable(sources);
    // By its name, or by its stem in quotes.
    let named = |name: &str| {
        let stem = format!("\"{}\"", name.split('.').next().unwrap_or(name));
        let mut others = sources.iter().filter(|s| !s.path.ends_with(name));
        others.any(|s| s.text.contains(name) || s.text.contains(&stem))
    };
    let data = |s: &Source| {
        let folders = ["/data/", "/profiles/", "kernels/ptx/", "kernels/cuda/"];
        folders.iter().any(|folder| s.path.contains(folder)) || s.path.starts_with("bench/results/")
    };
    let dead = sources.iter().filter(|s| match s.is_rust() {
        true => !rust.contains(&s.path),
        false => data(s) && !named(s.path.rsplit('/').next().unwrap_or(&s.path)),
    });
    dead.map(|s| format!("{}: nothing uses it", s.path))
        .collect()
}

/// Rust files that some crate root reaches by `mod`.
fn reachable(sources: &[Source]) -> BTreeSet<String> {
    let exists = |path: &str| sources.iter().find(|s| s.path == path);
    let is_root = |path: &str| {
        let in_tests = path.split_once("/tests/").map(|(_, rest)| rest);
        let own_test = |rest: &str| !rest.contains('/') || rest.ends_with("/main.rs");
        path.ends_with("/src/lib.rs")
            || path.ends_with("/src/main.rs")
            || path.contains("/examples/")
            || in_tests.is_some_and(|rest| !path.contains("/src/") && own_test(rest))
    };
    let roots = sources.iter().map(|s| s.path.clone());
    let mut todo: Vec<String> = roots.filter(|path| is_root(path)).collect();
    let mut found = BTreeSet::new();
    while let Some(path) = todo.pop() {
        let Some(source) = exists(&path).filter(|_| found.insert(path.clone())) else {
            continue;
        };
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", &path));
        let own = ["lib.rs", "main.rs", "mod.rs"].contains(&file);
        let stem = file.trim_end_matches(".rs");
        let below = match own || is_root(&path) {
            true => folder.to_owned(),
            false => format!("{folder}/{stem}"),
        };
        for name in source.text.lines().filter_map(declared_module) {
            todo.push(format!("{below}/{name}.rs"));
            todo.push(format!("{below}/{name}/mod.rs"));
        }
    }
    found
}

/// The name in `mod name;`, whatever its visibility.
fn declared_module(line: &str) -> Option<&str> {
    let (before, name) = line.trim().strip_suffix(';')?.rsplit_once("mod ")?;
    let visible = before.is_empty() || before.starts_with("pub");
    visible.then_some(name)
}

/// Links of the documents lead to files.
pub fn broken_links(sources: &[Source], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|s| s.path.ends_with(".md")) {
        let folder = source
            .path
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        for (n, line) in source.text.lines().enumerate() {
            for target in line
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split(')').next())
            {
                let file = target.split('#').next().unwrap_or_default();
                let outside = target.contains("://") || file.is_empty();
                if !outside && !exists(format!("{folder}/{file}").trim_start_matches('/')) {
                    found.push(format!("{}:{}: no file {target}", source.path, n + 1));
                }
            }
        }
    }
    found
}

/// Applies a check to each line of some files.
fn each_line(
    sources: &[Source],
    which: impl Fn(&Source) -> bool,
    check: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|s| which(s)) {
        for (n, line) in source.text.lines().enumerate() {
            if let Some(what) = check(line) {
                found.push(format!("{}:{}: {what}", source.path, n + 1));
            }
        }
    }
    found
}
