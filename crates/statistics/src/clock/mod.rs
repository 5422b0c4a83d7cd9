//! Relation of two clocks, bounded by packets in both directions.
//!
//! θ(t) is the other clock's time minus this clock's when this clock shows t. Nothing arrives
//! before it was sent: a packet sent at t1 by this clock and received at t2 by the other bounds
//! θ(t1) from above by t2 − t1; one sent at t3 by the other and received at t4 by this bounds θ(t4)
//! from below by t3 − t4. The line of two steady clocks, θ(t) = a + b·t, therefore lies below the
//! lower convex hull of all points (t1, t2 − t1) and above the upper hull of all (t4, t3 − t4). The
//! lines that do form a convex polygon in the plane of a and b, the dual of the two hulls. Each new
//! bound cuts off a half-plane (Sutherland and Hodgman, "Reentrant polygon clipping", 1974), so the
//! relation is known after each packet. θ(t) lies between its least and its largest value over the
//! polygon's corners, however the delay divides over the two directions.
//!
//! Where no line fits, because a clock was set or its rate changed, a new segment begins. A step
//! that is smaller than the error at that time cannot be noticed.

use serde::Serialize;

/// Maximum skew: among phones and sniffers it is within ±100 ppm ("Toward Accurate Network Delay
/// Measurement on Android Phones", section 3.2). Twice that is allowed, and 50 for the temperature.
pub const MAX_SKEW_PPM: f64 = 250.0;
/// Maximum number of segments: bounds memory where the other side makes up its stamps.
const MAX_SEGMENTS: usize = 4096;
/// Maximum number of corners. A bound that would add one beyond it is not applied, so that the
/// polygon stays a superset of the possible lines.
const MAX_CORNERS: usize = 256;
/// Distance below which two corners are one, in ns of θ: bounds of one line meet in a corner, which
/// rounding would otherwise multiply.
const SAME_NS: f64 = 1e-4;
/// Maximum skew in ns per second.
const MAX_SLOPE: f64 = MAX_SKEW_PPM * 1e3;

/// Value of θ at one time, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offset {
    /// θ rounded to whole ns at the segment's first bound; add `rest_ns`.
    pub base_ns: i128,
    /// Middle of the possible range, above `base_ns`.
    pub rest_ns: f64,
    /// Half the width of the possible range.
    pub error_ns: f64,
}

impl Offset {
    /// Middle of the possible range, in µs.
    pub fn micros(&self) -> f64 {
        self.base_ns as f64 / 1e3 + self.rest_ns / 1e3
    }

    /// `there_ns` minus `here_ns` and minus this offset, in ns.
    pub fn correct(&self, here_ns: u64, there_ns: u64) -> f64 {
        let raw = i128::from(there_ns) - i128::from(here_ns) - self.base_ns;
        raw as f64 - self.rest_ns
    }
}

/// Part of a run in which one line relates the clocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// First time of a bound, by this clock.
    pub from_ns: u64,
    /// Last time of a bound.
    pub to_ns: u64,
    /// Number of bounds.
    pub bounds: u64,
    /// Rate of the other clock relative to this, minus 1: middle of the possible range.
    pub skew_ppm: f64,
    /// Half the width of the possible range of the skew.
    pub skew_error_ppm: f64,
    /// Offset in the middle between `from_ns` and `to_ns`.
    pub offset: Offset,
    /// Largest error of the offset between `from_ns` and `to_ns`, in ns.
    pub worst_error_ns: f64,
}

impl Segment {
    /// The relation for delays from this clock to the other, and for those back.
    pub fn directions(&self) -> [DirectionClock; 2] {
        [1.0, -1.0].map(|sign| DirectionClock {
            // Adding 0 makes -0 positive.
            skew_ppm: sign * self.skew_ppm + 0.0,
            offset_us: sign * self.offset.micros() + 0.0,
            offset_error_us: self.worst_error_ns / 1e3,
        })
    }
}

/// Receiver's clock relative to the sender's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DirectionClock {
    /// Rate of the receiver's clock relative to the sender's, minus 1, in ppm: middle of the
    /// possible range.
    pub skew_ppm: f64,
    /// Receiver's clock minus the sender's in the middle of the segment, in µs.
    pub offset_us: f64,
    /// Largest error of the offset in the segment, in µs.
    pub offset_error_us: f64,
}

/// Relation of two clocks over a run.
#[derive(Debug, Clone, Default)]
pub struct ClockFit {
    resolution_ns: f64,
    parts: Vec<Part>,
    crossed: u64,
}

/// The lines that fit a segment.
#[derive(Debug, Clone)]
struct Part {
    from_ns: u64,
    to_ns: u64,
    /// Time of the last bound from above, and from below.
    last_ns: [u64; 2],
    base_ns: i128,
    bounds: u64,
    lines: Lines,
}

#[derive(Debug, Clone)]
enum Lines {
    /// Bounds of one kind only, at most twice [`MAX_CORNERS`]: their lines have no limit in the
    /// other direction.
    Unlimited(Vec<Bound>),
    Polygon(Vec<Line>),
}

/// A line: θ(x) = `a` + `b`·x, in ns, with x in s since the segment's start.
#[derive(Debug, Clone, Copy)]
struct Line {
    a: f64,
    b: f64,
}

/// A bound of θ(`x`).
#[derive(Debug, Clone, Copy)]
struct Bound {
    x: f64,
    y: f64,
    above: bool,
}

impl Line {
    fn at(&self, x: f64) -> f64 {
        self.a + self.b * x
    }
}

impl Bound {
    /// Distance of a line from the bound; negative beyond it.
    fn room(&self, line: &Line) -> f64 {
        match self.above {
            true => self.y - line.at(self.x),
            false => line.at(self.x) - self.y,
        }
    }
}

impl ClockFit {
    /// No bounds yet. Time stamps are rounded down to multiples of `resolution_ns`, by the coarser
    /// of the two clocks.
    pub fn new(resolution_ns: u64) -> Self {
        Self {
            resolution_ns: resolution_ns.max(1) as f64,
            ..Self::default()
        }
    }

    /// Adds an exchange: sent at `t1` by this clock, received at `t2` and answered at `t3` by the
    /// other, received at `t4`; in the order of sending. Returns the number of its segment; `None`
    /// where its stamps contradict each other.
    pub fn exchange(&mut self, [t1, t2, t3, t4]: [u64; 4]) -> Option<usize> {
        let (high, low) = (difference(t1, t2), difference(t4, t3));
        // Even the steepest line from the first bound to the second passes beside it.
        let gained = (low - high) as f64 - difference(t1, t4) as f64 * MAX_SKEW_PPM / 1e6;
        if t4 < t1 || t3 < t2 || gained > 2.0 * self.resolution_ns {
            self.crossed += 1;
            return None;
        }
        self.bounds(&[(t1, high, true), (t4, low, false)])
    }

    /// Adds a packet sent at `t1` by this clock and received at `t2` by the other.
    pub fn sent(&mut self, t1: u64, t2: u64) -> Option<usize> {
        self.bounds(&[(t1, difference(t1, t2), true)])
    }

    /// Adds a packet sent at `t3` by the other clock and received at `t4` by this.
    pub fn received(&mut self, t3: u64, t4: u64) -> Option<usize> {
        self.bounds(&[(t4, difference(t4, t3), false)])
    }

    fn bounds(&mut self, bounds: &[(u64, i128, bool)]) -> Option<usize> {
        if let Some(part) = self.parts.last_mut()
            && part.add(bounds, self.resolution_ns)
        {
            return Some(self.parts.len() - 1);
        }
        let mut part = Part::new(*bounds.first()?);
        if self.parts.len() >= MAX_SEGMENTS || !part.add(bounds, self.resolution_ns) {
            self.crossed += 1;
            return None;
        }
        if let Some(before) = self.parts.last_mut() {
            before.end();
        }
        self.parts.push(part);
        Some(self.parts.len() - 1)
    }

    /// Offset at a time of this clock. Before the first and after the last segment, theirs
    /// continues; between two segments, and in two at once, it is unknown.
    pub fn at(&self, here_ns: u64) -> Option<Offset> {
        let mut inside = self.whole().filter(|p| p.contains(here_ns));
        let part = match (inside.next(), inside.next()) {
            (Some(part), None) => part,
            (Some(_), Some(_)) => return None,
            (None, _) => {
                let (first, last) = (self.whole().next()?, self.whole().next_back()?);
                match here_ns {
                    t if self.whole().all(|p| t < p.from_ns) => first,
                    t if self.whole().all(|p| t > p.to_ns) => last,
                    _ => return None,
                }
            }
        };
        part.at(here_ns)
    }

    /// Offset at a time of this clock by the segment with this number.
    pub fn in_segment(&self, number: usize, here_ns: u64) -> Option<Offset> {
        self.parts.get(number)?.at(here_ns)
    }

    /// The segment with this number, if it has bounds from both sides.
    pub fn segment(&self, number: usize) -> Option<Segment> {
        self.parts.get(number)?.segment()
    }

    /// Segments with bounds from both sides, in order.
    pub fn segments(&self) -> Vec<Segment> {
        self.whole().filter_map(Part::segment).collect()
    }

    /// Whether no line fits the whole run: a clock was set, or its rate changed.
    pub fn drifted(&self) -> bool {
        self.whole().count() > 1
    }

    /// Number of exchanges left out because their stamps contradict each other, and of bounds that
    /// fit neither what is before nor what is after them.
    pub fn crossed(&self) -> u64 {
        let several = self.parts.len() > 1;
        let lone = self.parts.iter().filter(|p| several && !p.is_whole());
        self.crossed + lone.map(|p| p.bounds).sum::<u64>()
    }

    fn whole(&self) -> impl DoubleEndedIterator<Item = &Part> {
        self.parts.iter().filter(|p| p.is_whole())
    }
}

impl Part {
    fn new((at_ns, theta_ns, _): (u64, i128, bool)) -> Self {
        Self {
            from_ns: at_ns,
            to_ns: at_ns,
            last_ns: [at_ns; 2],
            base_ns: theta_ns,
            bounds: 0,
            lines: Lines::Unlimited(Vec::new()),
        }
    }

    fn x(&self, at_ns: u64) -> f64 {
        difference(self.from_ns, at_ns) as f64 / 1e9
    }

    fn is_whole(&self) -> bool {
        matches!(self.lines, Lines::Polygon(_))
    }

    fn contains(&self, here_ns: u64) -> bool {
        (self.from_ns..=self.to_ns).contains(&here_ns)
    }

    /// Adds bounds if a line fits them all; otherwise changes nothing.
    fn add(&mut self, bounds: &[(u64, i128, bool)], resolution_ns: f64) -> bool {
        let bound = |(at_ns, theta_ns, above): &(u64, i128, bool)| Bound {
            x: self.x(*at_ns),
            y: (theta_ns - self.base_ns) as f64 + resolution_ns * if *above { 1.0 } else { -1.0 },
            above: *above,
        };
        let new: Vec<Bound> = bounds.iter().map(bound).collect();
        match &mut self.lines {
            Lines::Unlimited(before) => {
                let above = before.first().or(new.first()).is_some_and(|b| b.above);
                let known = before.len();
                let one_side = new.iter().all(|b| b.above == above);
                before.extend(new);
                if one_side {
                    if before.len() >= 2 * MAX_CORNERS {
                        *before = hull(before, above);
                    }
                } else if let Some(lines) = polygon(before) {
                    self.lines = Lines::Polygon(lines);
                } else {
                    before.truncate(known);
                    return false;
                }
            }
            Lines::Polygon(lines) => match clip(lines, &new) {
                Clipped::Unchanged => {}
                Clipped::Part(left) => *lines = left,
                Clipped::Nothing => return false,
            },
        }
        self.bounds += bounds.len() as u64;
        for (at_ns, _, above) in bounds {
            self.to_ns = self.to_ns.max(*at_ns);
            let [above_ns, below_ns] = &mut self.last_ns;
            let last = if *above { above_ns } else { below_ns };
            *last = (*last).max(*at_ns);
        }
        true
    }

    /// Ends the segment before another: a step forwards only loosens bounds from above, so that it
    /// may have been at any time since the last one from below; and vice versa.
    fn end(&mut self) {
        let [above_ns, below_ns] = self.last_ns;
        self.to_ns = above_ns.min(below_ns);
    }

    /// Least and largest value of θ.
    fn range(&self, here_ns: u64) -> Option<(f64, f64)> {
        let Lines::Polygon(lines) = &self.lines else {
            return None;
        };
        let x = self.x(here_ns);
        extremes(lines.iter().map(|line| line.at(x)))
    }

    fn at(&self, here_ns: u64) -> Option<Offset> {
        let (low, high) = self.range(here_ns)?;
        Some(Offset {
            base_ns: self.base_ns,
            rest_ns: f64::midpoint(low, high),
            error_ns: (high - low) / 2.0,
        })
    }

    fn segment(&self) -> Option<Segment> {
        let Lines::Polygon(lines) = &self.lines else {
            return None;
        };
        let (low, high) = extremes(lines.iter().map(|line| line.b / 1e3))?;
        // The width is convex in time: it is largest at an end.
        let ends = [self.at(self.from_ns)?, self.at(self.to_ns)?];
        Some(Segment {
            from_ns: self.from_ns,
            to_ns: self.to_ns,
            bounds: self.bounds,
            skew_ppm: f64::midpoint(low, high),
            skew_error_ppm: (high - low) / 2.0,
            offset: self.at(self.from_ns.midpoint(self.to_ns))?,
            worst_error_ns: ends[0].error_ns.max(ends[1].error_ns),
        })
    }
}

/// The bounds of one side that limit lines: the lower hull of those above, the upper hull of those
/// below ("Another efficient algorithm for convex hulls in two dimensions", 1979). Bounds beyond
/// [`MAX_CORNERS`] are left out, as corners are.
fn hull(bounds: &mut [Bound], above: bool) -> Vec<Bound> {
    let sign = if above { 1.0 } else { -1.0 };
    bounds.sort_by(|p, q| {
        p.x.total_cmp(&q.x)
            .then((sign * p.y).total_cmp(&(sign * q.y)))
    });
    let mut hull: Vec<Bound> = Vec::with_capacity(2 * MAX_CORNERS);
    for bound in bounds.iter() {
        if hull.last().is_some_and(|last| last.x == bound.x) {
            continue;
        }
        // The middle one of three is left out where it is not beyond the line through the others.
        while let [.., p, q] = hull.as_slice()
            && sign * ((q.x - p.x) * (bound.y - p.y) - (q.y - p.y) * (bound.x - p.x)) <= 0.0
        {
            hull.pop();
        }
        hull.push(*bound);
    }
    hull.truncate(MAX_CORNERS);
    hull
}

/// Corners of the polygon of all lines that fit bounds of both sides; `None` where no line does.
fn polygon(bounds: &[Bound]) -> Option<Vec<Line>> {
    let low = bounds.iter().find(|b| !b.above)?;
    let high = bounds.iter().find(|b| b.above)?;
    // A rectangle that contains every line between these two bounds.
    let (least, most) = (
        low.y - MAX_SLOPE * low.x.abs(),
        high.y + MAX_SLOPE * high.x.abs(),
    );
    let corners = [
        (least, -MAX_SLOPE),
        (most, -MAX_SLOPE),
        (most, MAX_SLOPE),
        (least, MAX_SLOPE),
    ];
    let corners: Vec<Line> = corners.iter().map(|(a, b)| Line { a: *a, b: *b }).collect();
    match clip(&corners, bounds) {
        _ if most < least => None,
        Clipped::Nothing => None,
        Clipped::Unchanged => Some(corners),
        Clipped::Part(lines) => Some(lines),
    }
}

/// Effect of bounds on a polygon.
enum Clipped {
    Unchanged,
    Part(Vec<Line>),
    Nothing,
}

fn clip(corners: &[Line], bounds: &[Bound]) -> Clipped {
    let mut left: Option<Vec<Line>> = None;
    for bound in bounds {
        let before = left.as_deref().unwrap_or(corners);
        if before.iter().all(|line| bound.room(line) >= 0.0) {
            continue;
        }
        let after = half(before, bound);
        if after.is_empty() {
            return Clipped::Nothing;
        }
        if after.len() <= MAX_CORNERS {
            left = Some(after);
        }
    }
    left.map_or(Clipped::Unchanged, Clipped::Part)
}

/// Corners of the polygon's part on the inner side of a bound.
fn half(corners: &[Line], bound: &Bound) -> Vec<Line> {
    let mut inner: Vec<Line> = Vec::with_capacity(corners.len() + 1);
    let same = |p: &Line, q: &Line| {
        (p.a - q.a).abs() < SAME_NS && (p.at(bound.x) - q.at(bound.x)).abs() < SAME_NS
    };
    let mut push = |corner: Line| {
        if inner.last().is_none_or(|last| !same(last, &corner)) {
            inner.push(corner);
        }
    };
    for (p, q) in corners.iter().zip(corners.iter().cycle().skip(1)) {
        let (of_p, of_q) = (bound.room(p), bound.room(q));
        if of_p >= 0.0 {
            push(*p);
        }
        if (of_p < 0.0) != (of_q < 0.0) {
            let share = of_p / (of_p - of_q);
            push(Line {
                a: p.a + (q.a - p.a) * share,
                b: p.b + (q.b - p.b) * share,
            });
        }
    }
    inner
}

fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, v| {
        Some(range.map_or((v, v), |(low, high): (f64, f64)| (low.min(v), high.max(v))))
    })
}

fn difference(from_ns: u64, to_ns: u64) -> i128 {
    i128::from(to_ns) - i128::from(from_ns)
}

/// Resolution of time stamps, in ns: the largest of 1 ms, 1 µs and 1 ns of which all are multiples.
pub fn resolution_ns(stamps: impl IntoIterator<Item = u64>) -> u64 {
    let mut resolution = 1_000_000;
    for stamp in stamps {
        while !stamp.is_multiple_of(resolution) {
            resolution /= 1000;
        }
    }
    resolution
}

#[cfg(test)]
mod tests;
