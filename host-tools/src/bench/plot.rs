// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of results: lines over a plane, each axis linear or logarithmic.

use super::BenchError;
use plotters::prelude::*;

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with the unit.
    pub title: &'static str,
    /// Powers of ten are equally far apart. Values of 0 and below are left out.
    pub log: bool,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// In the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Above it.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// Lines.
    pub series: Vec<Series>,
}

const SIZE: (u32, u32) = (900, 540);
const FONT: &str = "sans-serif";

impl Axis {
    fn place(&self, value: f64) -> Option<f64> {
        match self.log {
            true => (value > 0.0).then(|| value.log10()),
            false => Some(value),
        }
    }

    fn label(&self, place: f64) -> String {
        let value = if self.log { 10f64.powf(place) } else { place };
        match value.abs() {
            v if v == 0.0 || (0.01..100_000.0).contains(&v) => {
                // Three digits, and no zeros behind the point.
                let digits = (2.0 - v.max(0.01).log10().floor()).clamp(0.0, 4.0) as usize;
                let text = format!("{value:.digits$}");
                match text.contains('.') {
                    true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                    false => text,
                }
            }
            _ => format!("{value:.0e}"),
        }
    }
}

/// Least and largest, some air around them.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
        (l.min(v), h.max(v))
    });
    if low > high {
        return (0.0, 1.0);
    }
    let air = ((high - low) * 0.05).max(1e-3);
    (low - air, high + air)
}

impl Plot {
    /// Adds a point to the line of that name, which begins with its first point.
    pub fn add(&mut self, name: String, point: (f64, f64)) {
        match self.series.iter_mut().find(|s| s.name == name) {
            Some(s) => s.points.push(point),
            None => self.series.push(Series {
                name,
                points: vec![point],
            }),
        }
    }

    /// As SVG.
    ///
    /// # Errors
    /// [`BenchError::Plot`], when it cannot be drawn.
    pub fn svg(&self) -> Result<String, BenchError> {
        let mut text = String::new();
        self.draw(&mut text)
            .map_err(|e| BenchError::Plot(e.to_string()))?;
        Ok(text)
    }

    fn draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let lines: Vec<(&str, Vec<(f64, f64)>)> = (self.series.iter())
            .map(|s| {
                let place = |&(x, y): &(f64, f64)| Some((self.x.place(x)?, self.y.place(y)?));
                (s.name.as_str(), s.points.iter().filter_map(place).collect())
            })
            .collect();
        let all = || lines.iter().flat_map(|(_, points)| points);
        let (left, right) = range(all().map(|p| p.0));
        let (bottom, top) = range(all().map(|p| p.1));
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, (FONT, 20))
            .margin(14)
            .x_label_area_size(46)
            .y_label_area_size(70)
            .build_cartesian_2d(left..right, bottom..top)?;
        chart
            .configure_mesh()
            .x_desc(self.x.title)
            .y_desc(self.y.title)
            .x_label_formatter(&|v| self.x.label(*v))
            .y_label_formatter(&|v| self.y.label(*v))
            .light_line_style(TRANSPARENT)
            .label_style((FONT, 14))
            .draw()?;
        for (n, (name, points)) in lines.into_iter().enumerate() {
            let colour = Palette99::pick(n).to_rgba();
            let dots: Vec<_> = (points.iter())
                .map(|p| Circle::new(*p, 3, colour.filled()))
                .collect();
            chart
                .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2))
                });
            chart.draw_series(dots)?;
        }
        chart
            .configure_series_labels()
            .border_style(BLACK.mix(0.3))
            .background_style(WHITE.mix(0.85))
            .label_font((FONT, 14))
            .draw()?;
        root.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_titles_lines_and_legend() {
        let axis = |title, log| Axis { title, log };
        let plot = Plot {
            title: "Error of gaps".into(),
            x: axis("flows", true),
            y: axis("ns", false),
            series: vec![
                Series {
                    name: "nic".into(),
                    points: vec![(1.0, 3.0), (32.0, 4.0), (0.0, 9.0)],
                },
                Series {
                    name: "none".into(),
                    points: Vec::new(),
                },
            ],
        };
        let svg = plot.svg().unwrap();
        for part in ["Error of gaps", "flows", "\nnic\n", "\nnone\n", "polyline"] {
            assert!(svg.contains(part), "no {part} in {svg}");
        }
        // What a logarithm cannot show is left out.
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn labels_are_short() {
        let axis = |log| Axis { title: "", log };
        assert_eq!(axis(false).label(0.0), "0");
        assert_eq!(axis(false).label(12.5), "12.5");
        assert_eq!(axis(true).label(3.0), "1000");
        assert_eq!(axis(true).label(6.0), "1e6");
        assert_eq!(axis(true).label(-6.0), "1e-6");
    }
}
