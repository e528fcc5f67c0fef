//! Reports as JSON, for programs: the very data, indented.

use serde::Serialize;

/// A report as JSON text. Ends with a newline.
///
/// # Errors
/// Where a report holds what JSON cannot: none of ours does.
pub fn json(report: &impl Serialize) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}
