// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic regs`: the hardware contract, printed from the tables of `tsonic-regs`.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use tsonic_regs::registers::Access;
use tsonic_regs::tables::{BLOCKS, LIMITS, WORDS};
use tsonic_regs::{CONTRACT_VERSION, MAGIC, Status};

/// Prints registers, descriptor and completion words, limits and error codes.
#[derive(Args, Debug)]
#[command(after_help = "Example: tsonic regs --format markdown > registers.md")]
pub struct RegsArgs {
    /// How to print.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
    Markdown,
}

/// Runs the command.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(args: &RegsArgs) -> io::Result<()> {
    let format = if args.json { Format::Json } else { args.format };
    let text = match format {
        Format::Json => format!("{:#}\n", as_json()),
        Format::Markdown => as_tables(&Style::MARKDOWN),
        Format::Text => as_tables(&Style::TEXT),
    };
    io::stdout().write_all(text.as_bytes())
}

const fn access(a: Access) -> &'static str {
    match a {
        Access::Ro => "ro",
        Access::Wo => "wo",
        Access::Rw => "rw",
    }
}

/// A doc comment for people who do not read it with rustdoc: links are the last part of
/// their path.
fn plain(doc: &str) -> String {
    let mut text = String::with_capacity(doc.len());
    let mut rest = doc.trim();
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((path, after)) = link.split_once("`]") else {
            break;
        };
        text.push_str(before);
        text.push_str(path.rsplit("::").next().unwrap_or(path));
        rest = after;
    }
    text.push_str(rest);
    text
}

/// The contract as one JSON object.
pub fn as_json() -> Value {
    let blocks: Vec<Value> = BLOCKS
        .iter()
        .map(|b| {
            let registers: Vec<Value> = b
                .registers
                .iter()
                .map(|r| {
                    json!({"name": r.name, "offset": r.offset, "count": r.count,
                           "access": access(r.access), "doc": plain(r.doc)})
                })
                .collect();
            json!({"name": b.name, "base": b.base, "stride": b.stride, "registers": registers})
        })
        .collect();
    let words: Vec<Value> = WORDS
        .iter()
        .map(|w| {
            let fields: Vec<Value> = w
                .fields
                .iter()
                .map(|f| json!({"name": f.name, "lsb": f.lsb, "msb": f.msb, "doc": plain(f.doc)}))
                .collect();
            json!({"structure": w.structure, "word": w.word, "doc": plain(w.doc), "fields": fields})
        })
        .collect();
    let limits: Vec<Value> = LIMITS
        .iter()
        .map(|(n, v, d)| json!({"name": n, "value": v, "doc": plain(d)}))
        .collect();
    let errors: Vec<Value> = Status::ALL
        .iter()
        .map(|s| {
            json!({"code": s.code(), "name": s.name(), "cause": s.cause(), "remedy": s.remedy()})
        })
        .collect();
    json!({"magic": MAGIC, "contract_version": CONTRACT_VERSION, "blocks": blocks,
           "words": words, "limits": limits, "errors": errors})
}

/// How a table looks.
struct Style {
    heading: &'static str,
    row: &'static str,
    cell: &'static str,
    end: &'static str,
    rule: bool,
}

impl Style {
    const TEXT: Style = Style {
        heading: "",
        row: "  ",
        cell: "  ",
        end: "",
        rule: false,
    };
    const MARKDOWN: Style = Style {
        heading: "## ",
        row: "| ",
        cell: " | ",
        end: " |",
        rule: true,
    };

    /// One table; columns but the last are padded to their widest cell.
    fn table(&self, out: &mut String, title: &str, head: &[&str], rows: &[Vec<String>]) {
        let _ = writeln!(out, "{}{title}\n", self.heading);
        let width = |c: usize| {
            rows.iter()
                .map(|r| r[c].len())
                .chain([head[c].len()])
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let mut line = |cells: Vec<&str>| {
            let padded: Vec<String> = cells
                .iter()
                .enumerate()
                .map(|(i, c)| match i + 1 == cells.len() {
                    true => (*c).to_owned(),
                    false => format!("{c:<w$}", w = widths[i]),
                })
                .collect();
            let _ = writeln!(out, "{}{}{}", self.row, padded.join(self.cell), self.end);
        };
        line(head.to_vec());
        if self.rule {
            line(vec!["---"; head.len()]);
        }
        for row in rows {
            line(row.iter().map(String::as_str).collect());
        }
        out.push('\n');
    }
}

fn as_tables(style: &Style) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Register space of tsonic, contract version {}.{}, magic {MAGIC:#010x}\n",
        CONTRACT_VERSION >> 16,
        CONTRACT_VERSION & 0xffff
    );
    for b in BLOCKS {
        let title = match b.stride {
            0 => format!("Block {} at {:#x}", b.name, b.base),
            stride => format!("Block {} at {:#x} + {stride:#x} q", b.name, b.base),
        };
        let rows: Vec<Vec<String>> = b
            .registers
            .iter()
            .map(|r| {
                let name = match r.count {
                    1 => r.name.to_owned(),
                    n => format!("{}[{n}]", r.name),
                };
                vec![
                    format!("{:#05x}", r.offset),
                    name,
                    access(r.access).to_owned(),
                    plain(r.doc),
                ]
            })
            .collect();
        style.table(
            &mut out,
            &title,
            &["offset", "register", "access", "meaning"],
            &rows,
        );
    }
    let mut rows = Vec::new();
    for w in WORDS {
        let place = |bits: String, name: &str, doc: &str| {
            vec![
                w.structure.to_owned(),
                w.word.to_string(),
                bits,
                name.to_owned(),
                plain(doc),
            ]
        };
        if w.fields.is_empty() {
            rows.push(place("63:0".to_owned(), "", w.doc));
        }
        for f in w.fields {
            rows.push(place(format!("{}:{}", f.msb, f.lsb), f.name, f.doc));
        }
    }
    style.table(
        &mut out,
        "Words",
        &["structure", "word", "bits", "field", "meaning"],
        &rows,
    );
    let rows: Vec<Vec<String>> = LIMITS
        .iter()
        .map(|(n, v, d)| vec![(*n).to_owned(), v.to_string(), plain(d)])
        .collect();
    style.table(&mut out, "Limits", &["limit", "value", "of"], &rows);
    let rows: Vec<Vec<String>> = Status::ALL
        .iter()
        .map(|s| {
            vec![
                s.code().to_string(),
                s.name().to_owned(),
                s.cause().to_owned(),
                s.remedy().to_owned(),
            ]
        })
        .collect();
    style.table(
        &mut out,
        "Status and error codes",
        &["code", "name", "cause", "remedy"],
        &rows,
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_field_and_code_is_printed_in_every_form() {
        let forms = [
            as_tables(&Style::TEXT),
            as_tables(&Style::MARKDOWN),
            as_json().to_string(),
        ];
        for text in &forms {
            for name in BLOCKS.iter().flat_map(|b| b.registers).map(|r| r.name) {
                assert!(text.contains(name), "{name}");
            }
            for name in WORDS.iter().flat_map(|w| w.fields).map(|f| f.name) {
                assert!(text.contains(name), "{name}");
            }
            for s in Status::ALL {
                assert!(text.contains(s.name()) && text.contains(s.remedy()));
            }
        }
        for text in &forms {
            assert!(
                !text.contains("[`") && !text.contains("::"),
                "rustdoc: {text}"
            );
        }
        // A table of Markdown has as many cells in its rule as in its head.
        let head = forms[1]
            .lines()
            .find(|l| l.starts_with("| offset"))
            .unwrap_or_default();
        let rule = forms[1]
            .lines()
            .find(|l| l.starts_with("| ---"))
            .unwrap_or_default();
        assert_eq!(head.matches('|').count(), rule.matches('|').count());
    }
}
