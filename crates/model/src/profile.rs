//! What a machine is and what its transfers cost, and its TOML form.

use crate::sections::{
    Allocation, Bound, Calls, Curves, Device, Host, HostRates, Kernel, Limits, Link, Staging,
};
use crate::{Quantity, Source};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Most devices in a profile.
pub const DEVICES_MAX: usize = 64;
/// Most NUMA nodes in a profile.
pub const NUMA_NODES_MAX: u32 = 1024;
/// Most bytes that a profile may give a device or the host: 1 PiB.
pub const MEMORY_BYTES_MAX: u64 = 1 << 50;

/// Most characters of a line that an error shows.
const LINE_SHOWN_MAX: usize = 60;

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The text is no TOML, or a key is missing, unknown or of the wrong type.
    #[error("the profile cannot be read: {0}")]
    Syntax(String),
    /// A value is out of its range.
    #[error("profile key `{key}`: {what}")]
    Invalid {
        /// The key, with its section.
        key: String,
        /// What is wrong with the value.
        what: String,
    },
    /// No profile of that name comes with pinfold.
    #[error("there is no shipped profile `{name}`; there are {}", .known.join(", "))]
    UnknownName {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<&'static str>,
    },
}

impl ProfileError {
    pub(crate) fn invalid(key: &str, what: impl Into<String>) -> Self {
        ProfileError::Invalid {
            key: key.into(),
            what: what.into(),
        }
    }
}

/// A machine: what it is, and what its transfers cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// A short name, such as `h200`.
    pub name: String,
    /// What machine this is, in a sentence.
    pub description: String,
    /// The host.
    pub host: Host,
    /// The devices, at least one.
    pub devices: Vec<Device>,
    /// What driver calls cost.
    pub calls: Calls,
    /// What memory costs.
    pub allocation: Allocation,
    /// How fast the host works.
    pub host_rates: HostRates,
    /// How fast threads carry ordinary memory through page-locked slots.
    pub staging: Staging,
    /// How fast the link is.
    pub link: Link,
    /// How fast kernels reach memory.
    pub kernel: Kernel,
    /// Rates that depend on sizes.
    pub curves: Curves,
    /// What limits page-locking.
    #[serde(default)]
    pub limits: Limits,
}

impl Profile {
    /// Reads and checks a profile.
    ///
    /// # Errors
    /// Text that is no profile, and values out of range; both name the key.
    pub fn from_toml(text: &str) -> Result<Self, ProfileError> {
        let profile: Profile = toml::from_str(text).map_err(|e| syntax(text, &e))?;
        profile.check()?;
        Ok(profile)
    }

    /// The profile as TOML, one line for each value, that [`from_toml`](Self::from_toml) reads.
    ///
    /// # Errors
    /// Where a number cannot be written in TOML: bytes above 2^63.
    pub fn to_toml(&self) -> Result<String, ProfileError> {
        let table = toml::Table::try_from(self).map_err(|e| ProfileError::Syntax(e.to_string()))?;
        let mut text = String::new();
        for (key, value) in table.iter().filter(|(_, v)| !is_section(v)) {
            write_line(&mut text, key, value);
        }
        for (key, value) in &table {
            match value {
                toml::Value::Table(section) => {
                    write_section(&mut text, &format!("[{key}]"), section)
                }
                toml::Value::Array(list) => {
                    for section in list.iter().filter_map(|v| v.as_table()) {
                        write_section(&mut text, &format!("[[{key}]]"), section);
                    }
                }
                _ => {}
            }
        }
        Ok(text)
    }

    /// The same numbers, all of them marked as assumed: what one machine's profile is for another.
    #[must_use]
    pub fn assumed(mut self) -> Self {
        self.host.source = Source::Assumed;
        for device in &mut self.devices {
            device.source = Source::Assumed;
        }
        self.calls.assume();
        self.allocation.assume();
        self.host_rates.assume();
        self.staging.assume();
        self.link.assume();
        self.kernel.assume();
        let curves = &mut self.curves;
        curves.pageable_to_device.source = Source::Assumed;
        curves.pageable_to_host.source = Source::Assumed;
        curves.zero_copy_strided.source = Source::Assumed;
        curves.zero_copy_rows.source = Source::Assumed;
        self
    }

    /// Every single number with its key (`section.field`), in the order of the sections.
    pub fn quantities(&self) -> Vec<(String, Quantity)> {
        let all = self.bounded_quantities();
        all.into_iter().map(|(key, q, _)| (key, q)).collect()
    }

    fn bounded_quantities(&self) -> Vec<(String, Quantity, Bound)> {
        let sections = [
            ("calls", self.calls.list()),
            ("allocation", self.allocation.list()),
            ("host_rates", self.host_rates.list()),
            ("staging", self.staging.list()),
            ("link", self.link.list()),
            ("kernel", self.kernel.list()),
        ];
        let mut all = Vec::new();
        for (section, list) in sections {
            all.extend(
                list.into_iter()
                    .map(|(f, q, b)| (format!("{section}.{f}"), q, b)),
            );
        }
        all
    }

    /// Checks every value: finite, in range, tables in order.
    ///
    /// # Errors
    /// The first key whose value cannot be used.
    pub fn check(&self) -> Result<(), ProfileError> {
        if self.name.is_empty() {
            return Err(ProfileError::invalid("name", "must not be empty"));
        }
        for (key, quantity, bound) in self.bounded_quantities() {
            check_quantity(&key, quantity, bound)?;
        }
        self.check_machine()?;
        let curves = &self.curves;
        for (key, table) in [
            ("curves.pageable_to_device", &curves.pageable_to_device),
            ("curves.pageable_to_host", &curves.pageable_to_host),
        ] {
            table.check(key)?;
            table.check_time_grows(key)?;
        }
        curves.zero_copy_strided.check("curves.zero_copy_strided")?;
        curves.zero_copy_rows.check("curves.zero_copy_rows")
    }

    fn check_machine(&self) -> Result<(), ProfileError> {
        check_count(
            "host.numa_nodes",
            self.host.numa_nodes.into(),
            NUMA_NODES_MAX.into(),
        )?;
        check_count(
            "host.memory_bytes",
            self.host.memory_bytes,
            MEMORY_BYTES_MAX,
        )?;
        check_count("devices", self.devices.len() as u64, DEVICES_MAX as u64)?;
        for (n, device) in self.devices.iter().enumerate() {
            let key = |field: &str| format!("devices[{n}].{field}");
            check_count(&key("memory_bytes"), device.memory_bytes, MEMORY_BYTES_MAX)?;
            check_count(
                &key("multiprocessors"),
                device.multiprocessors.into(),
                1 << 16,
            )?;
            if device.numa_node >= self.host.numa_nodes {
                return Err(ProfileError::invalid(
                    &key("numa_node"),
                    format!(
                        "is {}, the host has {}",
                        device.numa_node, self.host.numa_nodes
                    ),
                ));
            }
        }
        let link = &self.link;
        let faster = link
            .to_device_bytes_per_s
            .value
            .max(link.to_host_bytes_per_s.value);
        if link.both_directions_bytes_per_s.value < faster {
            return Err(ProfileError::invalid(
                "link.both_directions_bytes_per_s",
                "is the total of both directions, so it is at least as much as each",
            ));
        }
        Ok(())
    }
}

/// What the parser says, in a line.
fn syntax(text: &str, error: &toml::de::Error) -> ProfileError {
    let before = error.span().and_then(|span| text.get(..span.start));
    let place = before.map_or(String::new(), |before| {
        let line = before.matches('\n').count();
        let said: String = (text.lines().nth(line).unwrap_or_default().trim().chars())
            .take(LINE_SHOWN_MAX)
            .collect();
        format!("line {}, `{said}`: ", line + 1)
    });
    ProfileError::Syntax(format!("{place}{}", error.message()))
}

fn check_quantity(key: &str, quantity: Quantity, bound: Bound) -> Result<(), ProfileError> {
    let value = quantity.value;
    let fits = match bound {
        Bound::Cost => value >= 0.0,
        Bound::Rate => value >= 1.0,
    };
    if fits && value <= 1e18 {
        return Ok(());
    }
    let range = match bound {
        Bound::Cost => "0 to 1e18",
        Bound::Rate => "1 to 1e18",
    };
    Err(ProfileError::invalid(
        key,
        format!("is {value}; {range} works"),
    ))
}

fn check_count(key: &str, count: u64, most: u64) -> Result<(), ProfileError> {
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(ProfileError::invalid(
        key,
        format!("is {count}; 1 to {most} works"),
    ))
}

fn is_section(value: &toml::Value) -> bool {
    value.is_table() || value.is_array()
}

fn write_section(text: &mut String, header: &str, section: &toml::Table) {
    text.push('\n');
    text.push_str(header);
    text.push('\n');
    for (key, value) in section {
        write_line(text, key, value);
    }
}

fn write_line(text: &mut String, key: &str, value: &toml::Value) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{key} = {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut toml::Table)) -> String {
        let mut table = toml::Table::try_from(Profile::h200()).unwrap();
        change(&mut table);
        Profile::from_toml(&table.to_string())
            .unwrap_err()
            .to_string()
    }

    fn section<'a>(table: &'a mut toml::Table, key: &str) -> &'a mut toml::Table {
        table.get_mut(key).and_then(|v| v.as_table_mut()).unwrap()
    }

    #[test]
    fn a_plain_number_is_assumed_and_a_table_says_its_source() {
        let mut table = toml::Table::try_from(Profile::h200()).unwrap();
        section(&mut table, "link").insert("peer_bytes_per_s".into(), 7.into());
        let profile = Profile::from_toml(&table.to_string()).unwrap();
        assert_eq!(profile.link.peer_bytes_per_s, Quantity::assumed(7.0));
        assert_eq!(
            profile.link.to_device_bytes_per_s,
            Quantity::measured(55.0e9)
        );
    }

    #[test]
    fn what_is_assumed_for_another_machine_claims_nothing() {
        let assumed = Profile::h200().assumed();
        assert!(!assumed.to_toml().unwrap().contains("measured\""));
        let value = |p: &Profile| p.quantities().iter().map(|(_, q)| q.value).sum::<f64>();
        assert_eq!(value(&assumed), value(&Profile::h200()));
    }

    #[test]
    fn errors_name_the_key() {
        let zero_rate = refused(|t| {
            section(t, "link").insert("to_host_bytes_per_s".into(), 0.into());
        });
        assert!(
            zero_rate.contains("link.to_host_bytes_per_s"),
            "{zero_rate}"
        );
        let nan = refused(|t| {
            section(t, "calls").insert("object_ns".into(), f64::NAN.into());
        });
        assert!(nan.contains("calls.object_ns"), "{nan}");
        let unknown = refused(|t| {
            section(t, "kernel").insert("speed".into(), 1.into());
        });
        assert!(unknown.contains("speed"), "{unknown}");
        let missing = refused(|t| {
            section(t, "calls").remove("copy_call_ns");
        });
        assert!(missing.contains("copy_call_ns"), "{missing}");
        let text = refused(|t| {
            section(t, "host").insert("numa_nodes".into(), "two".into());
        });
        assert!(text.contains("numa_nodes"), "{text}");
    }

    #[test]
    fn text_that_is_no_profile_is_told_by_its_line() {
        let error = Profile::from_toml("name = \"a\"\nhello\n").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("line 2, `hello`: ") && !text.contains('\n'),
            "{text}"
        );
        assert!(
            Profile::from_toml("")
                .unwrap_err()
                .to_string()
                .contains("`name`")
        );
    }

    #[test]
    fn machines_that_cannot_be_are_refused() {
        let node = refused(|t| {
            section(t, "host").insert("numa_nodes".into(), 0.into());
        });
        assert!(node.contains("host.numa_nodes"), "{node}");
        let total = refused(|t| {
            section(t, "link").insert("both_directions_bytes_per_s".into(), 1e9.into());
        });
        assert!(total.contains("both_directions"), "{total}");
    }
}
