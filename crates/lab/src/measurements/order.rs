//! Published order of two loads beside ours.

use serde::Deserialize;

/// Figures with an order: above zero, the first load of a comparison costs less.
const FIGURES: [&str; 3] = [": saving_share", ": saved_share", ": saved_mW"];

/// What a paper says of the first load of a comparison beside the second one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    /// It costs less.
    Saves,
    /// It costs more.
    Costs,
}

impl Order {
    /// Checks that a figure has an order.
    pub(super) fn check(of: &str) -> Result<(), String> {
        match FIGURES.iter().any(|figure| of.ends_with(figure)) {
            true => Ok(()),
            false => Err(format!("the figure \"{of}\" has no order: it is no saving")),
        }
    }

    /// Our order in words, by the 95 % interval of the figure; `shown` has it as text.
    pub(super) fn words(
        self,
        interval: Option<(f64, f64)>,
        shown: impl Fn(f64) -> String,
    ) -> String {
        let Some((low, high)) = interval else {
            return "undecided: no 95 % interval".to_owned();
        };
        let range = format!("{} to {}", shown(low), shown(high));
        let ours = match (low > 0.0, high < 0.0) {
            (true, _) => Self::Saves,
            (_, true) => Self::Costs,
            _ => return format!("undecided: the 95 % interval includes 0 ({range})"),
        };
        let does = match ours {
            Self::Saves => "saves",
            Self::Costs => "costs more",
        };
        match ours == self {
            true => format!("as published: it {does} ({range})"),
            false => format!("the other way round: here it {does} ({range})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_decided_by_the_interval() {
        let words = |order: Order, interval| order.words(interval, |v| format!("{v} %"));
        for (order, interval, expect) in [
            (
                Order::Saves,
                (1.0, 3.0),
                "as published: it saves (1 % to 3 %)",
            ),
            (
                Order::Costs,
                (-3.0, -1.0),
                "as published: it costs more (-3 % to -1 %)",
            ),
            (
                Order::Saves,
                (-3.0, -1.0),
                "the other way round: here it costs more (-3 % to -1 %)",
            ),
            (
                Order::Costs,
                (1.0, 3.0),
                "the other way round: here it saves (1 % to 3 %)",
            ),
            (
                Order::Saves,
                (-1.0, 3.0),
                "undecided: the 95 % interval includes 0 (-1 % to 3 %)",
            ),
            (
                Order::Costs,
                (-1.0, 0.0),
                "undecided: the 95 % interval includes 0 (-1 % to 0 %)",
            ),
        ] {
            assert_eq!(words(order, Some(interval)), expect);
        }
        assert_eq!(words(Order::Saves, None), "undecided: no 95 % interval");
    }

    #[test]
    fn only_savings_have_an_order() {
        assert!(Order::check("a against b, 8 Mbit/s: saved_mW").is_ok());
        assert!(Order::check("a: saving_share").is_ok());
        let why = Order::check("a: cpu_share").unwrap_err();
        assert!(why.contains("it is no saving"), "{why}");
    }
}
