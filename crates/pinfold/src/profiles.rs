//! Profiles of machines: from a file, the shipped one that is nearest to a device, and whether one
//! is of another machine.

use crate::device::Device;
use crate::error::{Bytes, Error, Result};
use pinfold_model::Profile;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Most bytes of a profile's file: many times what the largest tables take.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a profile from a file.
///
/// # Errors
/// [`Error::BadProfile`] for a file that cannot be read or is no profile; the text names the file
/// and the key.
pub fn load(file: &Path) -> Result<Profile> {
    let bad = |problem: String| Error::BadProfile {
        file: file.display().to_string(),
        problem,
    };
    let mut text = String::new();
    let read = File::open(file).and_then(|f| f.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Err(error) => Err(bad(format!("it cannot be read: {error}"))),
        Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => {
            Err(bad(format!("it has more than {FILE_BYTES_MAX} bytes")))
        }
        Ok(_) => Profile::from_toml(&text).map_err(|error| bad(error.to_string())),
    }
}

/// The shipped profile that is most like the device: of the longest name that is part of the
/// device's, else of its link's generation.
pub fn nearest(device: &Device) -> Profile {
    let info = device.info();
    let name = info.name.to_lowercase();
    let named = Profile::shipped_names()
        .iter()
        .filter(|known| name.contains(*known))
        .max_by_key(|known| known.len());
    let by_link = info.link.map(|link| match link.generation_max {
        ..=3 => "pcie3",
        4 => "pcie4",
        _ => "pcie5",
    });
    let best = named.copied().or(by_link).unwrap_or("pcie4");
    Profile::shipped(best).unwrap_or_else(|_| Profile::h200())
}

/// The name of a device without the word that it is simulated.
pub fn plain_name(device: &Device) -> &str {
    let name = device.name();
    name.strip_prefix("simulated ").unwrap_or(name)
}

/// Why a profile is of another machine than the device's; `None` where nothing says so.
pub fn mismatch(profile: &Profile, device: &Device) -> Option<String> {
    let info = device.info();
    let described = profile.devices.first()?;
    let major_minor = (
        described.compute_capability[0],
        described.compute_capability[1],
    );
    let link = info.link.map(|l| (l.generation_max, l.width_max));
    let described_link = (described.pcie_generation, described.pcie_width);
    let what = if major_minor != info.compute_capability {
        format!(
            "compute capability {}.{}, this device has {}.{}",
            major_minor.0, major_minor.1, info.compute_capability.0, info.compute_capability.1
        )
    } else if described.multiprocessors != info.multiprocessors {
        format!(
            "{} multiprocessors, this device has {}",
            described.multiprocessors, info.multiprocessors
        )
    } else if info.memory_bytes.abs_diff(described.memory_bytes) > described.memory_bytes / 10 {
        format!(
            "{}, this device has {}",
            Bytes(described.memory_bytes),
            Bytes(info.memory_bytes)
        )
    } else {
        let (now, then) = (link?, described_link);
        if now == then || then.0 == 0 {
            return None;
        }
        format!(
            "PCIe generation {} with {} lanes, this device has generation {} with {}",
            then.0, then.1, now.0, now.1
        )
    };
    Some(format!(
        "profile {} is of another machine: its device has {what}; measure this one with `pinfold \
         bench machine --profile FILE`",
        profile.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platform;
    use std::fs;

    fn device(name: &str) -> Device {
        let platform = Platform::simulated(Profile::shipped(name).unwrap());
        platform.device(0).unwrap()
    }

    #[test]
    fn every_simulated_machine_is_nearest_to_its_own_profile_and_to_no_other() {
        for name in Profile::shipped_names() {
            let (device, own) = (device(name), Profile::shipped(name).unwrap());
            assert_eq!(plain_name(&device), *name);
            assert_eq!(nearest(&device), own);
            assert_eq!(mismatch(&own, &device), None);
        }
        for (profile, other) in [("h200", "pcie4"), ("h200", "gh200"), ("pcie3", "h200")] {
            let text = mismatch(&Profile::shipped(profile).unwrap(), &device(other)).unwrap();
            assert!(
                text.contains(profile) && text.contains("another machine"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_file_is_read_or_named_with_what_is_wrong() {
        let file = std::env::temp_dir().join(format!("pinfold-profile-{}", std::process::id()));
        fs::write(&file, Profile::h200().to_toml().unwrap()).unwrap();
        assert_eq!(load(&file).unwrap(), Profile::h200());
        let long = " ".repeat(FILE_BYTES_MAX as usize + 1);
        for (text, what) in [
            ("hello", "line 1"),
            (&long, "more than"),
            ("name = 1", "line 1"),
        ] {
            fs::write(&file, text).unwrap();
            let said = load(&file).unwrap_err().to_string();
            assert!(
                said.contains(what) && said.contains("pinfold-profile"),
                "{said}"
            );
            assert!(said.contains("bench machine --profile"), "{said}");
        }
        fs::write(&file, [0xff, 0xfe]).unwrap();
        assert!(load(&file).is_err());
        fs::remove_file(&file).unwrap();
        assert!(
            load(&file)
                .unwrap_err()
                .to_string()
                .contains("cannot be read")
        );
    }
}
