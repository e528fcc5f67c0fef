//! The profiles that come with pinfold.
//!
//! `h200` was measured; the others are assumed, and stand for kinds of machine that it is not:
//! older links, a link that is coherent, a device without memory of its own, two sockets, and a
//! desktop on which write-combining does what the manuals say.

use crate::{Profile, ProfileError};
use std::sync::OnceLock;

macro_rules! shipped {
    ($($name:literal,)*) => {
        const TEXTS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../profiles/", $name, ".toml"))),)*
        ];
        const NAMES: &[&str] = &[$($name,)*];
    };
}

shipped! {
    "h200",
    "pcie3",
    "pcie4",
    "pcie5",
    "gh200",
    "integrated",
    "dual",
    "wc-real",
}

impl Profile {
    /// The names of the shipped profiles.
    pub fn shipped_names() -> &'static [&'static str] {
        NAMES
    }

    /// A shipped profile by its name.
    ///
    /// # Errors
    /// `UnknownName` lists the names there are.
    pub fn shipped(name: &str) -> Result<Self, ProfileError> {
        match TEXTS.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Profile::from_toml(text),
            None => Err(ProfileError::UnknownName {
                name: name.into(),
                known: NAMES.to_vec(),
            }),
        }
    }

    /// The measured profile of an H200 behind PCIe 5.0 x16 in a virtual machine.
    ///
    /// # Panics
    /// Never in a build that passes its tests: the text is part of the program.
    pub fn h200() -> Self {
        static H200: OnceLock<Profile> = OnceLock::new();
        H200.get_or_init(|| match Profile::shipped("h200") {
            Ok(profile) => profile,
            Err(e) => unreachable!("the shipped profile h200 is broken: {e}"),
        })
        .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    #[test]
    fn every_shipped_profile_is_valid_and_survives_toml() {
        for name in Profile::shipped_names() {
            let profile = Profile::shipped(name).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(&profile.name, name);
            let text = profile.to_toml().unwrap();
            assert_eq!(Profile::from_toml(&text).unwrap(), profile, "{text}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let message = Profile::shipped("h300").unwrap_err().to_string();
        assert!(
            message.contains("h300") && message.contains("h200, pcie3"),
            "{message}"
        );
    }

    #[test]
    fn only_h200_claims_to_be_measured() {
        for name in Profile::shipped_names() {
            let profile = Profile::shipped(name).unwrap();
            let measured = |(_, q): &(String, crate::Quantity)| q.source == Source::Measured;
            assert_eq!(profile.quantities().iter().any(measured), *name == "h200");
        }
    }
}
