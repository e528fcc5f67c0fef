//! Which calls are to fail, as text.

use crate::Call;
use pinfold_hal::ErrorCode;
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// Which calls are to fail, and with what. Written and read as text: rules with commas between
/// them, of which the first that fits a call decides.
///
/// ```text
/// plan  = [ rule { "," rule } ]
/// rule  = calls when ":" code
/// calls = "any" | CALL          a call's name, such as host-alloc
/// when  = "#" N                 the Nth of these calls, from 1
///       | "~" RATE "@" SEED     each of these calls with this probability, decided by the seed
/// code  = OutOfMemory | CUDA_ERROR_OUT_OF_MEMORY | 2
/// ```
///
/// `any` means every call that is not a [release](Call::is_release): those fail only by name.
///
/// ```
/// use pinfold_decorate::FaultPlan;
///
/// for text in [
///     "any#17:OutOfMemory",
///     "host-alloc#3:OutOfMemory,device-free#1:InvalidValue",
///     "any~0.02@7:LaunchFailed",
/// ] {
///     assert_eq!(text.parse::<FaultPlan>()?.to_string(), text);
/// }
/// # Ok::<(), pinfold_decorate::ParseFaultPlanError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    pub(super) rules: Vec<Rule>,
}

/// One rule of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rule {
    /// `None` for every call that is not a release.
    pub(super) call: Option<Call>,
    pub(super) when: When,
    pub(super) code: ErrorCode,
}

/// Which of a rule's calls fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum When {
    Nth(NonZeroU64),
    Rate { probability: f64, seed: u64 },
}

impl Rule {
    /// Whether the rule refuses a call that is the so-manieth of its name, and, unless it is a
    /// release, the so-manieth of all.
    pub(super) fn refuses(&self, call: Call, of_name: u64, of_any: Option<u64>) -> bool {
        let place = match self.call {
            Some(only) => (only == call).then_some(of_name),
            None => of_any,
        };
        match (self.when, place) {
            (_, None) => false,
            (When::Nth(n), Some(place)) => place == n.get(),
            // Decided by the place among calls of the same name, so that other calls in between
            // (a thread that polls, say) change nothing.
            (When::Rate { probability, seed }, Some(_)) => {
                unit_interval(mixed(seed, call, of_name)) < probability
            }
        }
    }
}

/// A number that seed, call and place decide: SplitMix64's output function (Steele, Lea and Flood,
/// 2014) over each in turn.
fn mixed(seed: u64, call: Call, place: u64) -> u64 {
    [call as u64, place].iter().fold(seed, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// The upper 53 bits as a number from 0 to below 1.
fn unit_interval(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, rule) in self.rules.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{rule}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.call.map_or("any", Call::name))?;
        match self.when {
            When::Nth(n) => write!(f, "#{n}")?,
            When::Rate { probability, seed } => write!(f, "~{probability}@{seed}")?,
        }
        match self.code {
            ErrorCode::Other(number) => write!(f, ":{number}"),
            code => write!(f, ":{code:?}"),
        }
    }
}

/// A text that is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{rule}` is no fault rule: {problem}")]
pub struct ParseFaultPlanError {
    rule: String,
    problem: String,
}

impl FromStr for FaultPlan {
    type Err = ParseFaultPlanError;

    fn from_str(text: &str) -> Result<Self, ParseFaultPlanError> {
        let rules = text.split(',').filter(|_| !text.is_empty());
        let parsed = rules.map(|rule| {
            parse_rule(rule.trim()).map_err(|problem| ParseFaultPlanError {
                rule: rule.into(),
                problem,
            })
        });
        Ok(FaultPlan {
            rules: parsed.collect::<Result<_, _>>()?,
        })
    }
}

const FORM: &str = "a rule is like `any#17:OutOfMemory` or `host-alloc~0.02@7:OutOfMemory`";

fn parse_rule(text: &str) -> Result<Rule, String> {
    let form = || FORM.to_owned();
    let (calls, code) = text.split_once(':').ok_or_else(form)?;
    let (calls, when) = if let Some((calls, n)) = calls.split_once('#') {
        let n = n.parse().map_err(|_| format!("`{n}` counts no calls"))?;
        (calls, When::Nth(n))
    } else {
        let (calls, rate) = calls.split_once('~').ok_or_else(form)?;
        let (probability, seed) = rate.split_once('@').ok_or_else(form)?;
        (calls, parse_rate(probability, seed)?)
    };
    let call = match calls {
        "any" => None,
        name => Some(name.parse::<Call>().map_err(|e| e.to_string())?),
    };
    let code = parse_code(code)?;
    Ok(Rule { call, when, code })
}

fn parse_rate(probability: &str, seed: &str) -> Result<When, String> {
    let parsed = probability.parse::<f64>().ok();
    let inside = parsed.filter(|p| (0.0..=1.0).contains(p));
    Ok(When::Rate {
        probability: inside.ok_or_else(|| format!("`{probability}` is no number from 0 to 1"))?,
        seed: seed.parse().map_err(|_| format!("`{seed}` is no seed"))?,
    })
}

/// A code by its name here, by CUDA's name, or by CUDA's number. 0 is success, so no error.
fn parse_code(text: &str) -> Result<ErrorCode, String> {
    match text.parse::<u32>() {
        Ok(0) => Err("`0` is success and no error code".into()),
        Ok(number) => Ok(ErrorCode::from_number(number)),
        Err(_) => text.parse::<ErrorCode>().map_err(|e| e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules() -> impl Strategy<Value = Rule> {
        let call = proptest::option::of(proptest::sample::select(Call::ALL));
        let nth = any::<NonZeroU64>().prop_map(When::Nth);
        let rate = (0.0..=1.0, any::<u64>())
            .prop_map(|(probability, seed)| When::Rate { probability, seed });
        let code = prop_oneof![1..1100u32, any::<u32>()]
            .prop_filter("0 is success", |number| *number != 0)
            .prop_map(ErrorCode::from_number);
        (call, prop_oneof![nth, rate], code).prop_map(|(call, when, code)| Rule {
            call,
            when,
            code,
        })
    }

    proptest! {
        #[test]
        fn a_plan_survives_text(rules in proptest::collection::vec(rules(), 0..5)) {
            let plan = FaultPlan { rules };
            prop_assert_eq!(plan.to_string().parse(), Ok(plan));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-z#~@:,0-9.-]{0,30}") {
            let _ = text.parse::<FaultPlan>();
        }
    }

    #[test]
    fn codes_have_three_spellings() {
        for text in [
            "any#1:OutOfMemory",
            "any#1:CUDA_ERROR_OUT_OF_MEMORY",
            "any#1:2",
            " any#1:OutOfMemory",
        ] {
            let plan = text.parse::<FaultPlan>().unwrap();
            assert_eq!(plan.to_string(), "any#1:OutOfMemory");
        }
    }

    #[test]
    fn what_is_no_plan_is_refused_with_the_rule_and_the_reason() {
        for (text, word) in [
            ("any#1:OutOfMemory,", "a rule is like"),
            ("any:OutOfMemory", "a rule is like"),
            ("any#17", "a rule is like"),
            ("any~0.5:OutOfMemory", "a rule is like"),
            ("any#0:OutOfMemory", "`0` counts no calls"),
            ("pause#1:OutOfMemory", "`pause`"),
            ("any~1.5@1:OutOfMemory", "from 0 to 1"),
            ("any~nan@1:OutOfMemory", "from 0 to 1"),
            ("any~0.5@x:OutOfMemory", "no seed"),
            ("any#1:Sadness", "no error code"),
            ("any#1:0", "no error code"),
        ] {
            let error = text.parse::<FaultPlan>().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let error = "any#1:2,open#x:2".parse::<FaultPlan>().unwrap_err();
        assert!(error.to_string().starts_with("`open#x:2`"), "{error}");
    }
}
