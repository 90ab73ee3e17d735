// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of all experiments: one HTML file that needs no other.

use maud::{DOCTYPE, PreEscaped, html};

/// An experiment.
pub struct Section {
    /// The command that gives it again.
    pub command: String,
    /// What it is about.
    pub about: String,
    /// Heading and rows.
    pub table: Vec<String>,
    /// SVG.
    pub plot: Option<String>,
}

const STYLE: &str = "\
    body { font: 16px/1.5 sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em } \
    pre { overflow-x: auto; background: #f6f6f6; padding: .8em; font-size: 13px; line-height: 1.35 } \
    svg { max-width: 100%; height: auto }";

/// The report of `sections`, in their order; `left` more are to come.
pub fn html(sections: &[Section], left: usize) -> String {
    let title = "tsonic: experiments";
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p {
                    "tsonic " (env!("CARGO_PKG_VERSION")) ", " (std::env::consts::OS) " on "
                    (std::env::consts::ARCH) ". Times are virtual but for throughput, which is this machine's."
                }
                @if left > 0 {
                    p { strong { "The run has not ended: " (left) " experiments are missing." } }
                }
                ul {
                    @for (n, section) in sections.iter().enumerate() {
                        li { a href={ "#" (n) } { code { (section.command) } } }
                    }
                }
                @for (n, section) in sections.iter().enumerate() {
                    h2 id=(n) { code { (section.command) } }
                    @for paragraph in section.about.split("\n\n") {
                        p { (paragraph) }
                    }
                    @if let Some(plot) = &section.plot {
                        (PreEscaped(plot))
                    }
                    pre { (section.table.join("\n")) }
                }
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_commands_tables_and_plots() {
        let section = Section {
            command: "tsonic bench x --a <b>".into(),
            about: "One.\n\nTwo & three.".into(),
            table: vec!["a  b".into(), "1 < 2".into()],
            plot: Some("<svg>plot</svg>".into()),
        };
        let page = html(&[section], 2);
        for part in [
            "<!DOCTYPE html>",
            "2 experiments are missing",
            "x --a &lt;b&gt;</code></h2>",
            "<p>One.</p><p>Two &amp; three.</p>",
            "<svg>plot</svg>",
            "<pre>a  b\n1 &lt; 2</pre>",
        ] {
            assert!(page.contains(part), "no {part} in {page}");
        }
    }
}
