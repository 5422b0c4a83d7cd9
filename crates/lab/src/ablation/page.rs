//! An ablation as one HTML file.

use mpbond_plot::{PAGE_STYLE, escaped};

use super::record::Ablation;
use super::table;

pub(super) fn to_html(report: &Ablation, date: &str) -> String {
    let title = "Mechanisms of the sender, left out one by one";
    let seeds: Vec<String> = report.seed.iter().map(u64::to_string).collect();
    let commit = match report.commit.as_str() {
        "" => String::new(),
        commit => format!(" from {}", escaped(commit)),
    };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{PAGE_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"meta\">{} worlds, each with {} configurations, in virtual time; settings of \
         seeds {}. Made {}{commit}.</p>\n\
         <p>A change is that from a configuration with the mechanism to one without it, in pairs \
         of the same world: +2 % means that it takes 2 % longer without. It counts from 1 % on, \
         if its 95 % interval excludes 0. The number after a change of time is the largest ratio \
         of a pair.</p>\n",
        report.subjects,
        report.configurations,
        seeds.join(", "),
        escaped(date),
    );
    for alone in [false, true] {
        out += &format!(
            "<h2>{}</h2>\n{}<h3>Times</h3>\n{}",
            table::title(alone),
            table::verdicts(report, alone).to_html(),
            table::times(report, alone).to_html()
        );
    }
    out.push_str("</body>\n</html>\n");
    out
}
