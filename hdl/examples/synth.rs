// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthesises, places and routes blocks for an ECP5 (LFE5UM5G-45F, speed 8)
//! and fails when one does not reach the clock of the design.
//!
//! ```text
//! cargo run -p tsonic-hdl --example synth -- [--out DIR] [--jobs N] [--fresh] [--docs FILE] [BLOCK...]
//! ```
//! Without names: every block of `tsonic_hdl::blocks` that is to be synthesised, and
//! the sum of those that make up the NIC with 8 queue pairs must keep to its budget.
//! `scripts/synth.sh` provides the tools, whose folder is in `TSONIC_FPGA_BIN`,
//! and calls this.
//!
//! Figures of a block are kept in tsonic's cache folder under a hash of its Verilog,
//! the scripts and the tools' versions; `--fresh` does not read them. `--docs` puts the
//! table between the two marks of a file.
//!
//! A block has more ports than the package has pins, so it stands between
//! registers: inputs come from a shift register, outputs are captured and folded
//! into another. The block keeps its own level of hierarchy in yosys, so its
//! counts are its own.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tsonic_hdl::blocks::{self, BLOCKS, NIC_8};
use tsonic_hdl::verilog::{self, Generated};

/// The clock of the design in MHz.
const CLOCK_MHZ: f64 = 125.0;
/// Seeds of the placer, until one reaches the clock.
const SEEDS: std::ops::RangeInclusive<u32> = 1..=4;
/// Seeds that are tried first, where it is known that those before them fail: a placement of
/// these blocks takes a minute.
const FIRST: &[(&str, u32)] = &[("budget_32", 3)];
/// Most LUTs (TRELLIS_COMB) of all blocks of the NIC with 8 queue pairs together.
const LUTS: u64 = 30_000;
/// Most block RAMs of them.
const BLOCK_RAMS: u64 = 80;
/// Around the table in a file of documentation.
const MARKS: [&str; 2] = ["<!-- table -->\n", "<!-- end of table -->\n"];
const DEVICE: &[&str] = &["--um5g-45k", "--package", "CABGA381", "--speed", "8"];

#[derive(Clone, Debug)]
struct Figures {
    name: String,
    luts: u64,
    registers: u64,
    block_rams: u64,
    multipliers: u64,
    fmax: f64,
    seed: u32,
    critical: String,
    seconds: f64,
}

/// The block between registers, as module `harness`.
fn harness(generated: &Generated) -> Result<String, String> {
    let mut inputs = Vec::new();
    let mut outputs = Vec::new();
    for port in &generated.ports {
        match (port.input, port.name.as_str()) {
            (true, "clock") => {}
            (true, name) => inputs.push((name, port.width)),
            (false, name) => outputs.push((name, port.width)),
        }
    }
    let ins: usize = inputs.iter().map(|(_, width)| width).sum();
    let outs: usize = outputs.iter().map(|(_, width)| width).sum();
    if ins == 0 || outs == 0 {
        return Err("the block has no inputs or no outputs".into());
    }
    let mut pins = String::from(".clock(clk)");
    for (list, bus) in [(&inputs, "stimulus"), (&outputs, "result")] {
        let mut at = 0;
        for (name, width) in list {
            let _ = write!(pins, ",\n  .{name}({bus}[{}:{at}])", at + width - 1);
            at += width;
        }
    }
    Ok(format!(
        "module harness(input wire clk, input wire si, output reg so);
reg [{i}:0] stimulus;
wire [{o}:0] result;
reg [{o}:0] captured;
reg [{o}:0] folded;
always @(posedge clk) begin
  stimulus <= {{stimulus, si}};
  captured <= result;
  folded <= {{folded, 1'b0}} ^ captured;
  so <= folded[{o}];
end
{top} block(
  {pins});
endmodule
",
        i = ins - 1,
        o = outs - 1,
        top = verilog::TOP
    ))
}

fn tool(name: &str) -> Command {
    match std::env::var_os("TSONIC_FPGA_BIN") {
        Some(dir) => Command::new(Path::new(&dir).join(name)),
        None => Command::new(name),
    }
}

fn run(command: &mut Command, log: &Path) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("`{program}`: {error}; run scripts/tools.sh fpga"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    fs::write(log, &text).map_err(|error| format!("{}: {error}", log.display()))?;
    if output.status.success() {
        return Ok(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(20)..].join("\n");
    Err(format!(
        "`{program}` failed (log: {}):\n{tail}",
        log.display()
    ))
}

fn read_json(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// End points of the slowest path within the clock domain.
fn critical_path(report: &Value) -> String {
    let paths = report["critical_paths"].as_array();
    let inside = paths.and_then(|paths| {
        paths.iter().find(|path| {
            let (from, to) = (path["from"].as_str(), path["to"].as_str());
            from == to && from.is_some_and(|from| from.contains("posedge"))
        })
    });
    let Some(path) = inside.and_then(|path| path["path"].as_array()) else {
        return String::new();
    };
    let cell = |step: Option<&Value>, side: &str| {
        step.and_then(|step| step[side]["cell"].as_str())
            .unwrap_or("?")
            .to_string()
    };
    format!(
        "{} -> {}",
        cell(path.first(), "from"),
        cell(path.last(), "to")
    )
}

/// A block, ready for the tools.
struct Work {
    name: &'static str,
    /// Verilog of the block and its harness.
    text: String,
    /// Figures of the same Verilog from the same tools.
    known: PathBuf,
}

/// What the mapper may take for the logic between two registers, in ps: the period less
/// what wires take. Without it the mapper makes everything as fast as the slowest path
/// can be, with LUTs of seven inputs where one of four would do.
const LOGIC_PS: u32 = 4000;
/// Widest sum or comparison that is built from LUTs. In a carry chain a bit costs one
/// LUT, too, but the ends of a chain cost two more.
const LUT_SUM: u32 = 9;

/// Script of yosys. The block keeps its own level of hierarchy.
fn script() -> String {
    format!(
        "read_verilog top.v
setattr -mod -set keep_hierarchy 1 {top}
scratchpad -set abc9.D {LOGIC_PS}
synth_ecp5 -top harness -run begin:map_gates
techmap -autoproc t:$alu r:Y_WIDTH<={LUT_SUM} %i
opt -fast
synth_ecp5 -top harness -json netlist.json -run map_gates:
tee -q -o stat.json stat -json
",
        top = verilog::TOP
    )
}

/// What the tools say of their versions.
fn versions() -> Result<String, String> {
    let mut text = String::new();
    for (name, option) in [("yosys", "-V"), ("nextpnr-ecp5", "--version")] {
        let output = tool(name)
            .arg(option)
            .output()
            .map_err(|error| format!("`{name}`: {error}; run scripts/tools.sh fpga"))?;
        text += &String::from_utf8_lossy(&output.stdout);
        text += &String::from_utf8_lossy(&output.stderr);
    }
    Ok(text)
}

fn prepare(name: &str, versions: &str) -> Result<Work, String> {
    let entry = blocks::find(name).ok_or_else(|| {
        let known: Vec<&str> = BLOCKS.iter().map(|entry| entry.name).collect();
        format!("no block `{name}`; there are {}", known.join(", "))
    })?;
    let generated = verilog::generate((entry.build)().as_ref()).map_err(|e| e.to_string())?;
    let text = format!("{}\n{}", generated.text, harness(&generated)?);
    let mut hash = Sha256::new();
    // This program decides what is counted and when a seed is good enough.
    for part in [text.as_str(), &script(), versions, include_str!("synth.rs")] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    let hash: String = hash.finalize()[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let cache = tsonic_verilate::cache_dir().map_err(|error| error.to_string())?;
    Ok(Work {
        name: entry.name,
        text,
        known: cache.join("synthesis").join(format!("{hash}.json")),
    })
}

/// Figures that an earlier run left.
fn recall(work: &Work) -> Option<Figures> {
    let value = read_json(&work.known).ok()?;
    let number = |name: &str| value[name].as_u64();
    Some(Figures {
        name: work.name.into(),
        luts: number("luts")?,
        registers: number("registers")?,
        block_rams: number("block_ram")?,
        multipliers: number("mult18x18")?,
        fmax: value["fmax_mhz"].as_f64()?,
        seed: u32::try_from(number("seed")?).ok()?,
        critical: value["critical_path"].as_str()?.into(),
        seconds: 0.0,
    })
}

/// Keeps figures for later runs; that they cannot be kept is no failure.
fn remember(work: &Work, figures: &Figures) {
    let Some(dir) = work.known.parent() else {
        return;
    };
    let scratch = work.known.with_extension(format!("{}", std::process::id()));
    let kept = fs::create_dir_all(dir)
        .and_then(|()| fs::write(&scratch, row(figures).to_string()))
        .and_then(|()| fs::rename(&scratch, &work.known));
    if let Err(error) = kept {
        eprintln!("synth: {}: {error}", work.known.display());
    }
}

fn row(f: &Figures) -> Value {
    json!({
        "block": f.name, "luts": f.luts, "registers": f.registers,
        "block_ram": f.block_rams, "mult18x18": f.multipliers,
        "fmax_mhz": f.fmax, "seed": f.seed, "critical_path": f.critical,
    })
}

fn synthesise(work: &Work, out: &Path) -> Result<Figures, String> {
    let start = Instant::now();
    let dir = out.join(work.name);
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let source = dir.join("top.v");
    fs::write(&source, &work.text).map_err(|error| format!("{}: {error}", source.display()))?;
    fs::write(dir.join("synth.ys"), script()).map_err(|error| error.to_string())?;
    run(
        tool("yosys").current_dir(&dir).args(["-q", "synth.ys"]),
        &dir.join("yosys.log"),
    )?;
    let stat = read_json(&dir.join("stat.json"))?;
    let cells = |module: &str, cell: &str| {
        stat["modules"][format!("\\{module}")]["num_cells_by_type"][cell]
            .as_u64()
            .unwrap_or(0)
    };
    let count = |cell: &str| cells(verilog::TOP, cell);
    let mut figures = Figures {
        name: work.name.into(),
        luts: 0,
        registers: count("TRELLIS_FF"),
        block_rams: count("DP16KD"),
        multipliers: count("MULT18X18D"),
        fmax: 0.0,
        seed: 0,
        critical: String::new(),
        seconds: 0.0,
    };
    if count("LUT4") + figures.registers == 0 {
        return Err("yosys left nothing of the block".into());
    }
    let first = FIRST.iter().find(|f| f.0 == work.name).map(|f| f.1);
    for seed in first.into_iter().chain(SEEDS) {
        let mut command = tool("nextpnr-ecp5");
        command
            .current_dir(&dir)
            .args(DEVICE)
            .args(["--lpf-allow-unconstrained", "--timing-allow-fail", "-q"])
            .args(["--json", "netlist.json", "--report", "report.json"])
            .args([
                "--freq",
                &CLOCK_MHZ.to_string(),
                "--seed",
                &seed.to_string(),
            ]);
        run(&mut command, &dir.join("nextpnr.log"))?;
        let report = read_json(&dir.join("report.json"))?;
        let used = report["utilization"]["TRELLIS_COMB"]["used"]
            .as_u64()
            .ok_or("nextpnr reported no TRELLIS_COMB")?;
        // The harness folds the outputs: a LUT each.
        figures.luts = used.saturating_sub(cells("harness", "LUT4"));
        let fmax = report["fmax"]
            .as_object()
            .and_then(|clocks| {
                clocks
                    .values()
                    .filter_map(|clock| clock["achieved"].as_f64())
                    .reduce(f64::min)
            })
            .ok_or("nextpnr reported no clock")?;
        if fmax > figures.fmax {
            figures.fmax = fmax;
            figures.seed = seed;
            figures.critical = critical_path(&report);
        }
        if fmax >= CLOCK_MHZ {
            break;
        }
    }
    figures.seconds = start.elapsed().as_secs_f64();
    Ok(figures)
}

/// Sum of the blocks of the NIC with 8 queue pairs, and its slowest clock; none
/// when some block of it is missing.
fn sum(figures: &[Figures]) -> Option<Figures> {
    let mut sum = Figures {
        name: "nic_8_sum".into(),
        luts: 0,
        registers: 0,
        block_rams: 0,
        multipliers: 0,
        fmax: f64::INFINITY,
        seed: 0,
        critical: String::new(),
        seconds: 0.0,
    };
    for name in NIC_8 {
        let f = figures.iter().find(|f| f.name == *name)?;
        sum.luts += f.luts;
        sum.registers += f.registers;
        sum.block_rams += f.block_rams;
        sum.multipliers += f.multipliers;
        if f.fmax < sum.fmax {
            sum.fmax = f.fmax;
            sum.critical.clone_from(&f.name);
        }
    }
    Some(sum)
}

fn markdown(figures: &[Figures]) -> String {
    let mut text = String::from(
        "| block | LUT (TRELLIS_COMB) | FF | block RAM (DP16KD) | MULT18X18D | Fmax in MHz |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    let mut line = |name: &str, f: &Figures| {
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {:.1} |",
            f.luts, f.registers, f.block_rams, f.multipliers, f.fmax
        );
    };
    let in_nic = |f: &&Figures| NIC_8.contains(&f.name.as_str());
    for f in figures.iter().filter(in_nic) {
        line(&f.name, f);
    }
    if let Some(f) = sum(figures) {
        line("**sum, 8 queues, 64 slots**", &f);
    }
    for f in figures.iter().filter(|f| !in_nic(f)) {
        line(&f.name, f);
    }
    text
}

/// Puts the table between the marks of a file.
fn document(path: &Path, table: &str) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let [from, to] = MARKS.map(|mark| text.find(mark).map(|at| (at, at + mark.len())));
    let (Some((_, from)), Some((to, _))) = (from, to) else {
        return Err(format!("{}: no marks for the table", path.display()));
    };
    if from > to {
        return Err(format!("{}: marks in the wrong order", path.display()));
    }
    let text = format!("{}{table}{}", &text[..from], &text[to..]);
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

struct Arguments {
    out: PathBuf,
    jobs: usize,
    fresh: bool,
    docs: Option<PathBuf>,
    names: Vec<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        out: "target/synthesis".into(),
        jobs: std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(2),
        fresh: false,
        docs: None,
        names: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--out" => parsed.out = arguments.next().ok_or("--out takes a folder")?.into(),
            "--docs" => parsed.docs = Some(arguments.next().ok_or("--docs takes a file")?.into()),
            "--fresh" => parsed.fresh = true,
            "--jobs" => match arguments.next().and_then(|n| n.parse().ok()) {
                Some(n) if n > 0 => parsed.jobs = n,
                _ => return Err("--jobs takes a number above 0".into()),
            },
            _ => parsed.names.push(argument),
        }
    }
    Ok(parsed)
}

fn say(f: &Figures, from: &str) {
    println!(
        "{}: {} LUT, {} registers, {} block RAM, {} multipliers, {:.1} MHz \
         (seed {}, {from}; slowest path {})",
        f.name, f.luts, f.registers, f.block_rams, f.multipliers, f.fmax, f.seed, f.critical
    );
}

/// Figures of all, in the order of `works`; of what fails, it prints why.
fn measure(works: &[Work], arguments: &Arguments) -> Vec<Figures> {
    // The largest first, so that none is left to run alone at the end.
    let mut order: Vec<usize> = (0..works.len()).collect();
    order.sort_by_key(|n| std::cmp::Reverse(works[*n].text.len()));
    let results = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&n) = order.get(at) else { return };
                    let work = &works[n];
                    let known = if arguments.fresh { None } else { recall(work) };
                    let result = match known {
                        Some(f) => {
                            say(&f, "kept");
                            Ok(f)
                        }
                        None => synthesise(work, &arguments.out).inspect(|f| {
                            say(f, &format!("{:.0} s", f.seconds));
                            remember(work, f);
                        }),
                    };
                    match (result, results.lock()) {
                        (Ok(f), Ok(mut results)) => results.push((n, f)),
                        (Err(error), _) => println!("{}: {error}", work.name),
                        (Ok(_), Err(_)) => {}
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, f)| f).collect()
}

/// Whether all blocks were measured and keep to the clock and the budget.
fn judge(figures: &[Figures], wanted: usize, everything: bool) -> bool {
    let mut good = figures.len() == wanted;
    for f in figures.iter().filter(|f| f.fmax < CLOCK_MHZ) {
        println!("{}: {:.1} MHz is below {CLOCK_MHZ} MHz", f.name, f.fmax);
        good = false;
    }
    match sum(figures) {
        Some(f) => {
            println!(
                "nic_8: {} LUT of {LUTS}, {} registers, {} block RAM of {BLOCK_RAMS}, \
                 {:.1} MHz ({}): sum of the blocks",
                f.luts, f.registers, f.block_rams, f.fmax, f.critical
            );
            if f.luts > LUTS || f.block_rams > BLOCK_RAMS {
                println!("nic_8: the sum is above the budget");
                good = false;
            }
        }
        None if everything => {
            println!("nic_8: a block of the sum is missing");
            good = false;
        }
        None => {}
    }
    good
}

fn write(arguments: &Arguments, figures: &[Figures]) -> Result<(), String> {
    let rows: Vec<Value> = figures.iter().map(row).collect();
    let table = markdown(figures);
    let json = format!(
        "{:#}\n",
        json!({ "device": DEVICE.join(" "), "blocks": rows })
    );
    for (name, text) in [("synthesis.md", &table), ("synthesis.json", &json)] {
        let path = arguments.out.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    arguments
        .docs
        .as_ref()
        .map_or(Ok(()), |path| document(path, &table))
}

fn main() -> ExitCode {
    let fail = |error: String, code| {
        eprintln!("synth: {error}");
        ExitCode::from(code)
    };
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => return fail(error, 2),
    };
    let everything = arguments.names.is_empty();
    let names: Vec<&str> = if everything {
        let wanted = |entry: &&blocks::Entry| entry.synthesise;
        BLOCKS.iter().filter(wanted).map(|e| e.name).collect()
    } else {
        arguments.names.iter().map(String::as_str).collect()
    };
    let works =
        versions().and_then(|versions| names.iter().map(|name| prepare(name, &versions)).collect());
    let works: Vec<Work> = match works {
        Ok(works) => works,
        Err(error) => return fail(error, 2),
    };
    let figures = measure(&works, &arguments);
    let good = judge(&figures, works.len(), everything);
    if let Err(error) = write(&arguments, &figures) {
        return fail(error, 1);
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
