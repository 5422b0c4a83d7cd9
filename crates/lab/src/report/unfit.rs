//! Pictures of unfit transfers: they enter no figure, but where there are no others, a picture of
//! them tells more than none.

use std::collections::BTreeSet;

use super::study::Study;
use crate::experiment::Experiment;
use crate::record::Transfer;

/// The study with the unfit transfers of those schemes and workloads that have no fit one, for
/// pictures, and a sentence about it. `None` where every scheme and workload has a fit one.
pub(super) fn drawn(study: &Study) -> (Option<Study>, Option<String>) {
    let of = |d: &Transfer| (d.name.clone(), d.workload.clone());
    let transfers = &study.report.transfers;
    let all: BTreeSet<_> = transfers.iter().map(of).collect();
    let fit: BTreeSet<_> = transfers.iter().filter(|d| d.fit).map(of).collect();
    let missing: BTreeSet<_> = all.difference(&fit).cloned().collect();
    if missing.is_empty() {
        return (None, None);
    }
    let Ok(experiment) = Experiment::parse("the record", &study.experiment.text) else {
        return (None, None);
    };
    let mut report = study.report.clone();
    for transfer in &mut report.transfers {
        transfer.fit |= transfer.sha256_ok && missing.contains(&of(transfer));
    }
    let drawn = Study {
        experiment,
        report,
        runs: Vec::new(),
    };
    let whose = if missing.len() == all.len() {
        "The pictures show".to_owned()
    } else {
        let names = missing
            .iter()
            .map(|(scheme, workload)| format!("{workload}, {scheme}"));
        let names: Vec<String> = names.collect();
        format!("For these, the pictures show ({})", names.join("; "))
    };
    let warning = format!(
        "Some rows have no fit transfer. {whose} unfit transfers. Tables and asserts leave them \
         out; the list of unfit transfers says why."
    );
    (Some(drawn), Some(warning))
}
