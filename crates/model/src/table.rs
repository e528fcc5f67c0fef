//! Measured curves and their interpolation: straight lines between points on logarithmic scales.

use crate::{ProfileError, Source};
use serde::{Deserialize, Serialize};

/// Most points along one side of a table.
pub const TABLE_POINTS_MAX: usize = 256;

/// A rate that depends on a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateTable {
    /// Where the numbers come from.
    #[serde(default)]
    pub source: Source,
    /// Sizes, growing.
    pub bytes: Vec<f64>,
    /// The rate at each size.
    pub bytes_per_s: Vec<f64>,
}

impl RateTable {
    /// The rate at a size: interpolated between points, the nearest point's outside of them.
    pub fn rate_bytes_per_s(&self, bytes: f64) -> f64 {
        interpolate(&self.bytes, &self.bytes_per_s, bytes)
    }

    /// The time for that many bytes in nanoseconds. Below the first size it is the first point's
    /// time: a smaller transfer is not faster than the smallest one that was measured.
    pub fn time_ns(&self, bytes: f64) -> f64 {
        let bytes = bytes.max(self.bytes.first().copied().unwrap_or(1.0));
        bytes / self.rate_bytes_per_s(bytes) * 1e9
    }

    pub(crate) fn check(&self, key: &str) -> Result<(), ProfileError> {
        check_scale(&self.bytes, &format!("{key}.bytes"))?;
        check_rates(&self.bytes_per_s, self.bytes.len(), key)
    }

    /// Refuses a curve on which more bytes would take less time.
    pub(crate) fn check_time_grows(&self, key: &str) -> Result<(), ProfileError> {
        let times = self.bytes.iter().zip(&self.bytes_per_s).map(|(b, r)| b / r);
        let times: Vec<f64> = times.collect();
        match times.windows(2).position(|pair| pair[1] < pair[0]) {
            None => Ok(()),
            Some(at) => Err(ProfileError::invalid(
                key,
                format!(
                    "the rate grows faster than the size between {} and {} bytes, so that more \
                     bytes would take less time",
                    self.bytes[at],
                    self.bytes[at + 1]
                ),
            )),
        }
    }
}

/// A rate that depends on the size of a row and on the memory that the rows are spread over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowTable {
    /// Where the numbers come from.
    #[serde(default)]
    pub source: Source,
    /// Sizes of a row, growing.
    pub row_bytes: Vec<f64>,
    /// Memory that the rows are spread over, growing.
    pub footprint_bytes: Vec<f64>,
    /// For each footprint, the rate of useful bytes at each row size.
    pub bytes_per_s: Vec<Vec<f64>>,
}

impl RowTable {
    /// The rate of useful bytes: interpolated inside the table, the nearest edge's outside of it.
    pub fn rate_bytes_per_s(&self, row_bytes: f64, footprint_bytes: f64) -> f64 {
        let at_row: Vec<f64> = self
            .bytes_per_s
            .iter()
            .map(|rates| interpolate(&self.row_bytes, rates, row_bytes))
            .collect();
        interpolate(&self.footprint_bytes, &at_row, footprint_bytes)
    }

    pub(crate) fn check(&self, key: &str) -> Result<(), ProfileError> {
        check_scale(&self.row_bytes, &format!("{key}.row_bytes"))?;
        check_scale(&self.footprint_bytes, &format!("{key}.footprint_bytes"))?;
        if self.bytes_per_s.len() != self.footprint_bytes.len() {
            return Err(ProfileError::invalid(
                &format!("{key}.bytes_per_s"),
                format!(
                    "{} lines for {} footprints",
                    self.bytes_per_s.len(),
                    self.footprint_bytes.len()
                ),
            ));
        }
        for rates in &self.bytes_per_s {
            check_rates(rates, self.row_bytes.len(), key)?;
        }
        Ok(())
    }
}

/// Straight lines on logarithmic scales. `xs` grows, both lists have the same length, all values
/// are positive: checked when a profile is read. Outside of the points the nearest one counts.
fn interpolate(xs: &[f64], ys: &[f64], x: f64) -> f64 {
    let after = xs.partition_point(|&point| point < x);
    match (after.checked_sub(1), ys.get(after)) {
        (None, first) => first.copied().unwrap_or(1.0),
        (Some(before), None) => ys.get(before).copied().unwrap_or(1.0),
        (Some(before), Some(&y1)) => {
            let (x0, x1, y0) = (xs[before], xs[after], ys[before]);
            let part = (x / x0).ln() / (x1 / x0).ln();
            (y0.ln() + part * (y1 / y0).ln()).exp()
        }
    }
}

fn check_scale(scale: &[f64], key: &str) -> Result<(), ProfileError> {
    if scale.is_empty() || scale.len() > TABLE_POINTS_MAX {
        return Err(ProfileError::invalid(
            key,
            format!("{} points; 1 to {TABLE_POINTS_MAX} work", scale.len()),
        ));
    }
    if !scale.iter().all(|&v| v.is_finite() && v > 0.0) {
        return Err(ProfileError::invalid(key, "every point must be positive"));
    }
    if scale.windows(2).any(|pair| pair[1] <= pair[0]) {
        return Err(ProfileError::invalid(key, "the points must grow"));
    }
    Ok(())
}

fn check_rates(rates: &[f64], points: usize, key: &str) -> Result<(), ProfileError> {
    let key = format!("{key}.bytes_per_s");
    if rates.len() != points {
        return Err(ProfileError::invalid(
            &key,
            format!("{} rates for {points} points", rates.len()),
        ));
    }
    if !rates.iter().all(|&v| v.is_finite() && v > 0.0) {
        return Err(ProfileError::invalid(&key, "every rate must be positive"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> RateTable {
        RateTable {
            source: Source::Measured,
            bytes: vec![1e3, 1e5],
            bytes_per_s: vec![1e8, 1e9],
        }
    }

    #[test]
    fn a_table_is_exact_at_its_points_and_geometric_between_them() {
        assert!((table().rate_bytes_per_s(1e3) - 1e8).abs() < 1.0);
        assert!((table().rate_bytes_per_s(1e5) - 1e9).abs() < 10.0);
        let middle = table().rate_bytes_per_s(1e4);
        assert!((middle - 1e8 * 10f64.sqrt()).abs() < 1e3, "{middle}");
    }

    #[test]
    fn outside_of_a_table_the_nearest_point_counts() {
        assert_eq!(table().rate_bytes_per_s(1.0), 1e8);
        assert_eq!(table().rate_bytes_per_s(1e9), 1e9);
        assert_eq!(table().time_ns(1.0), table().time_ns(1e3));
    }

    #[test]
    fn a_table_whose_time_shrinks_is_refused() {
        let mut steep = table();
        steep.bytes_per_s = vec![1e6, 1e9];
        assert!(steep.check("t").is_ok());
        assert!(steep.check_time_grows("t").is_err());
        assert!(table().check_time_grows("t").is_ok());
    }
}
