//! Reports as text, for people at a terminal.

mod bench;
mod job;
mod memory;
mod probe;
mod sweep;
mod tables;

use super::{Page, one_line};
use comfy_table::presets::NOTHING;
use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, Width,
};

pub use bench::bench;
pub use job::job;
pub use probe::probe;
pub use sweep::sweep;
pub use tables::tables;

/// Marks the row that pinfold chose.
const MARK: &str = "▶";

/// Before the second line of a cell: hard spaces, which tables keep.
const INDENT: &str = "\u{a0}\u{a0}";

/// On narrower pages tables leave out what is least needed.
const WIDTH_WITH_ALL: u16 = 98;

/// How a piece of text stands out, in the numbers of ANSI terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Bold,
    Red,
    Yellow,
    Cyan,
}

impl Style {
    fn paint(self, text: &str, page: &Page) -> String {
        let number = match self {
            Style::Bold => 1,
            Style::Red => 31,
            Style::Yellow => 33,
            Style::Cyan => 36,
        };
        match page.color {
            true => format!("\u{1b}[{number}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }
}

/// Text in the making: lines that fit the page.
struct Sheet<'a> {
    page: &'a Page,
    text: String,
}

impl<'a> Sheet<'a> {
    fn new(page: &'a Page) -> Self {
        Sheet {
            page,
            text: String::new(),
        }
    }

    fn blank(&mut self) {
        self.text.push('\n');
    }

    /// The name of a section.
    fn heading(&mut self, text: &str) {
        self.blank();
        self.text.push_str(&Style::Bold.paint(text, self.page));
        self.blank();
    }

    /// A paragraph behind a label, wrapped; further lines begin under the first one's text. The
    /// label is padded to `column`, and is not counted where it is coloured.
    fn labelled(
        &mut self,
        indent: usize,
        label: &str,
        style: Option<Style>,
        column: usize,
        text: &str,
    ) {
        let from = indent + column.max(label.chars().count() + 1);
        let label = format!("{}{label}", " ".repeat(indent));
        let gap = " ".repeat(from - label.chars().count());
        let label = style.map_or(label.clone(), |style| style.paint(&label, self.page));
        let width = usize::from(self.page.width).saturating_sub(from);
        for (number, line) in wrap(&one_line(text), width).iter().enumerate() {
            let line = match number {
                0 => format!("{label}{gap}{line}"),
                _ => format!("{}{line}", " ".repeat(from)),
            };
            self.text.push_str(line.trim_end());
            self.blank();
        }
    }

    /// A paragraph, wrapped.
    fn paragraph(&mut self, text: &str, style: Option<Style>) {
        for line in wrap(&one_line(text), usize::from(self.page.width)) {
            let line = style.map_or(line.clone(), |style| style.paint(&line, self.page));
            self.text.push_str(&line);
            self.blank();
        }
    }

    /// A table. Cells may have several lines, by newlines.
    fn table(&mut self, columns: &[Column], rows: &[Vec<String>], chosen: Option<usize>) {
        let mut table = Table::new();
        let rule = LineStyle::none().fill('─');
        table
            .load_style(NOTHING.header_separator(rule))
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(self.page.width)
            .force_no_tty();
        if self.page.color {
            table.enforce_styling();
        }
        let cell = |text: &str, bold: bool| {
            let cell = Cell::new(
                text.split('\n')
                    .map(one_line)
                    .collect::<Vec<_>>()
                    .join("\n"),
            );
            match bold {
                true => cell.add_attribute(Attribute::Bold),
                false => cell,
            }
        };
        table.set_header(columns.iter().map(|column| cell(&column.heading, true)));
        for (number, row) in rows.iter().enumerate() {
            table.add_row(row.iter().map(|text| cell(text, chosen == Some(number))));
        }
        let widths = table.column_max_content_widths();
        let gap = |number: usize| match columns[number].kind {
            _ if number + 1 == columns.len() => 0,
            Kind::Mark | Kind::Tight => 1,
            Kind::Words | Kind::Number => 2,
        };
        let rest: u16 = (0..columns.len())
            .map(|number| match columns[number].kind {
                Kind::Words => 0,
                _ => widths[number] + gap(number),
            })
            .sum();
        for (number, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, gap(number)));
            if columns[number].kind == Kind::Words {
                // All that is left: the table by itself would wrap words while there is room.
                let width =
                    (widths[number] + gap(number)).min(self.page.width.saturating_sub(rest));
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
            } else {
                column.set_constraint(ColumnConstraint::ContentWidth);
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            // The hard spaces have kept numbers apart from marks.
            self.text.push_str(line.replace('\u{a0}', " ").trim_end());
            self.blank();
        }
    }
}

/// What a column of a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A mark beside the row.
    Mark,
    /// Words, which may be broken into lines. One column of a table.
    Words,
    /// Numbers, to the right and never broken.
    Number,
    /// Numbers close to the next column.
    Tight,
}

/// A column of a table.
struct Column {
    heading: String,
    kind: Kind,
}

impl Column {
    fn new(heading: impl Into<String>, kind: Kind) -> Self {
        let heading = heading.into();
        Column { heading, kind }
    }
}

/// Breaks text into lines of at most `width` characters, between words where that is possible.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() > width {
            lines.push(String::new());
            used = 0;
        }
        while used == 0 && word.len() > width {
            let rest = word.split_off(width);
            lines.push(String::new());
            let last = lines.len() - 2;
            lines[last] = word.into_iter().collect();
            word = rest;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            used += word.len();
            line.extend(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_within_words_that_are_too_long() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a bcdefgh i", 3), ["a", "bcd", "efg", "h i"]);
        assert_eq!(wrap("abcdef", 3), ["abc", "def"]);
        assert_eq!(wrap("µµµ µ", 5), ["µµµ µ"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("ab", 0), ["a", "b"]);
    }

    #[test]
    fn a_label_hangs_before_its_lines() {
        let page = Page {
            width: 12,
            color: false,
        };
        let mut sheet = Sheet::new(&page);
        sheet.labelled(1, "ab", None, 4, "one two three");
        assert_eq!(sheet.text, " ab  one two\n     three\n");
    }

    #[test]
    fn colour_does_not_move_text() {
        let color = Page {
            width: 40,
            color: true,
        };
        let mut sheet = Sheet::new(&color);
        sheet.labelled(0, "note", Some(Style::Yellow), 6, "x");
        assert_eq!(sheet.text, "\u{1b}[33mnote\u{1b}[0m  x\n");
    }
}
