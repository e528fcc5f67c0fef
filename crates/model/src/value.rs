//! A number with its source: measured on a machine, or assumed.

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Where a number comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Read off on the machine that the profile describes.
    Measured,
    /// Taken from a specification, or guessed.
    #[default]
    Assumed,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Measured => "measured",
            Source::Assumed => "assumed",
        })
    }
}

/// A number with its source. The unit is the last part of the name of the field that holds it.
///
/// In TOML it is `{ value = 55.0e9, source = "measured" }`, or a plain number, which is assumed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// Where it comes from.
    pub source: Source,
}

impl Quantity {
    /// A number read off on the machine.
    pub fn measured(value: f64) -> Self {
        Quantity {
            value,
            source: Source::Measured,
        }
    }

    /// A number from a specification, or a guess.
    pub fn assumed(value: f64) -> Self {
        Quantity {
            value,
            source: Source::Assumed,
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl<'de> Visitor<'de> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or { value = NUMBER, source = \"measured\" or \"assumed\" }")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Quantity, E> {
        Ok(Quantity::assumed(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Quantity, E> {
        Ok(Quantity::assumed(value as f64))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Quantity, E> {
        Ok(Quantity::assumed(value as f64))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Quantity, A::Error> {
        let (mut value, mut source) = (None, Source::default());
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "value" => value = Some(map.next_value::<f64>()?),
                "source" => source = map.next_value()?,
                other => return Err(de::Error::unknown_field(other, &["value", "source"])),
            }
        }
        let value = value.ok_or_else(|| de::Error::missing_field("value"))?;
        Ok(Quantity { value, source })
    }
}
