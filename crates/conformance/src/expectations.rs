//! Where a backend is known to differ from the contract, with the reason.

use pinfold_hal::BackendInfo;

/// A known difference: the test is expected to fail, and is reported when it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The backend's name, such as `sim`.
    pub backend: &'static str,
    /// The driver versions that differ, both ends included, as in [`BackendInfo::driver_version`];
    /// `None` for all.
    pub driver_versions: Option<(u32, u32)>,
    /// The test.
    pub test: &'static str,
    /// Why it fails, and why that is borne.
    pub reason: &'static str,
}

/// All known differences.
pub const EXPECTATIONS: &[Expectation] = &[
    Expectation {
        backend: "sim",
        driver_versions: None,
        test: "kernels/broken_ptx",
        reason: "a simulated device runs the Rust twins and does not read the PTX",
    },
    Expectation {
        backend: "sim",
        driver_versions: None,
        test: "registration/read_only",
        reason: "the simulator does not ask the operating system whether memory can be written",
    },
];

impl Expectation {
    /// The known difference of this backend in this test.
    pub(crate) fn of(info: &BackendInfo, test: &str) -> Option<&'static Expectation> {
        find(EXPECTATIONS, info, test)
    }
}

fn find<'a>(among: &'a [Expectation], info: &BackendInfo, test: &str) -> Option<&'a Expectation> {
    among.iter().find(|e| {
        let versions = e.driver_versions.unwrap_or((0, u32::MAX));
        e.backend == info.name
            && e.test == test
            && (versions.0..=versions.1).contains(&info.driver_version)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_name_tests_that_exist() {
        for expectation in EXPECTATIONS {
            assert!(crate::tests().any(|test| test.name == expectation.test));
        }
    }

    #[test]
    fn a_difference_is_found_by_backend_version_and_test() {
        let known = [Expectation {
            backend: "cuda",
            driver_versions: Some((11_000, 11_080)),
            test: "memory/zero_bytes",
            reason: "for this test",
        }];
        let info = |name: &str, driver_version| BackendInfo {
            name: name.into(),
            simulated: false,
            driver_version,
            driver_release: None,
            missing_symbols: Vec::new(),
        };
        assert!(find(&known, &info("cuda", 11_080), "memory/zero_bytes").is_some());
        assert!(find(&known, &info("cuda", 12_000), "memory/zero_bytes").is_none());
        assert!(find(&known, &info("sim", 11_080), "memory/zero_bytes").is_none());
        assert!(find(&known, &info("cuda", 11_080), "memory/device_alloc").is_none());
    }
}
