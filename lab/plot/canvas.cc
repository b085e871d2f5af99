#include "lab/plot/canvas.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <cairo.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <numbers>
#include <system_error>

#include "base/program.h"
#include "base/text.h"

#ifdef __SANITIZE_ADDRESS__
// Fontconfig, which finds Cairo's fonts, keeps its configuration until the process ends.
extern "C" const char* __lsan_default_suppressions() { return "leak:libfontconfig.so"; }
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }
#endif

namespace starling::lab {
namespace {

constexpr double kRaisedSize = 0.72, kRaisedBy = 0.42;  // of an exponent, relative to the font

// Packages that contain Fontconfig (scripts/package) have a configuration with a font, because a bare system
// has none. Fontconfig reads the variable when Cairo first looks for a font.
void use_installed_fonts() {
  const auto program = program_path();
  const auto fonts = (program.parent_path() / "../share/starling/fonts/fonts.conf").lexically_normal();
  std::error_code error;
  if (!program.empty() && std::filesystem::exists(fonts, error)) setenv("FONTCONFIG_FILE", fonts.c_str(), 0);
}

cairo_status_t append(void* document, const unsigned char* bytes, unsigned length) {
  static_cast<std::string*>(document)->append(bytes, bytes + length);
  return CAIRO_STATUS_SUCCESS;
}

cairo_surface_t* surface_for(const Paper& paper, std::string& document) {
  const double width = kPointsPerInch * paper.width, height = kPointsPerInch * paper.height;
  if (paper.format == PaperFormat::svg)
    return cairo_svg_surface_create_for_stream(append, &document, width, height);
  if (paper.format == PaperFormat::pdf)
    return cairo_pdf_surface_create_for_stream(append, &document, width, height);
  const auto pixels = [&](double inches) { return static_cast<int>(std::lround(inches * paper.dpi)); };
  return cairo_image_surface_create(CAIRO_FORMAT_RGB24, pixels(paper.width), pixels(paper.height));
}

std::string four_bytes(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

// CRC-32 of ISO 3309, as PNG has it.
std::uint32_t crc_of(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

// Inserts the resolution (a chunk pHYs) behind the header, so that programs know the size on paper.
void add_resolution(std::string& png, double dpi) {
  constexpr std::size_t kHeaderEnd = 33;
  const std::string density = four_bytes(static_cast<std::uint32_t>(std::lround(dpi / 0.0254)));  // per meter
  const std::string chunk = "pHYs" + density + density + '\x01';
  png.insert(kHeaderEnd,
             four_bytes(static_cast<std::uint32_t>(chunk.size() - 4)) + chunk + four_bytes(crc_of(chunk)));
}

// For text and attributes.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text)
    safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '"' ? "&quot;" : std::string(1, c);
  return safe;
}

// Inserts the texts, which are above everything else, so that programs find, read and edit them as such:
// Cairo would write outlines of their letters.
void add_texts(std::string& svg, const Paper& paper, const std::string& texts) {
  const std::size_t end = svg.rfind("</svg>");
  if (end == std::string::npos || texts.empty()) return;
  svg.insert(end, fmt::format("<g font-family=\"{}\" font-size=\"{:.6g}\" xml:space=\"preserve\">\n{}</g>\n",
                              escaped(paper.family), paper.font, texts));
}

// Gives an SVG a role, a title and a description.
void label_svg(std::string& svg, const std::string& title, const std::string& text) {
  const std::size_t begin = svg.find("<svg "), end = svg.find('>', begin);
  if (begin == std::string::npos || end == std::string::npos) return;
  svg.insert(end + 1, "\n<title>" + escaped(title) + "</title>\n<desc>" + escaped(text) + "</desc>");
  svg.insert(begin + 5, "role=\"img\" aria-label=\"" + escaped(title) + "\" ");
}

// Gives a PDF a title and a subject, and a date of creation that does not differ between equal figures:
// SOURCE_DATE_EPOCH (reproducible-builds.org), else the epoch.
void label_pdf(cairo_surface_t* surface, const std::string& title, const std::string& text) {
  const char* const given = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t seconds = parse_number<std::int64_t>(given == nullptr ? "" : given).value_or(0);
  std::tm utc{};
  if (gmtime_r(&seconds, &utc) == nullptr) utc = {};
  std::array<char, 40> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, date.data());
  if (!title.empty()) cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, title.c_str());
  if (!text.empty()) cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_SUBJECT, text.c_str());
}

double channel_of(std::string_view color, std::size_t nth) {
  int value = 0;
  for (const char c : color.substr(1 + 2 * nth, 2)) value = 16 * value + (c <= '9' ? c - '0' : c - 'a' + 10);
  return value / 255.0;
}

}  // namespace

struct Canvas::Sheet {
  Sheet(const Paper& paper, std::string& document)
      : surface(surface_for(paper, document)), cairo(cairo_create(surface)) {
    if (paper.format == PaperFormat::png) {
      cairo_scale(cairo, paper.dpi / kPointsPerInch, paper.dpi / kPointsPerInch);
      cairo_set_source_rgb(cairo, 1, 1, 1);
      cairo_paint(cairo);
    }
    // Letters have the same widths in every format.
    cairo_font_options_t* options = cairo_font_options_create();
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_set_font_options(cairo, options);
    cairo_font_options_destroy(options);
    cairo_select_font_face(cairo, paper.family.c_str(), CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, paper.font);
    cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
  }
  ~Sheet() {
    cairo_destroy(cairo);
    cairo_surface_destroy(surface);
  }
  Sheet(const Sheet&) = delete;
  Sheet& operator=(const Sheet&) = delete;

  void use(std::string_view color, double opacity) const {
    cairo_set_source_rgba(cairo, channel_of(color, 0), channel_of(color, 1), channel_of(color, 2), opacity);
  }
  void path(std::span<const Spot> spots) const {
    for (const Spot& spot : spots) cairo_line_to(cairo, spot.x, spot.y);
  }
  void stroke(const Pen& pen) const {
    use(pen.color, pen.opacity);
    cairo_set_line_width(cairo, pen.width);
    cairo_set_dash(cairo, pen.dashes.data(), static_cast<int>(pen.dashes.size()), 0);
    cairo_stroke(cairo);
  }
  double advance(std::string_view text, double size) const {
    cairo_text_extents_t extents;
    cairo_set_font_size(cairo, size);
    cairo_text_extents(cairo, std::string(text).c_str(), &extents);
    return extents.x_advance;
  }

  cairo_surface_t* surface;
  cairo_t* cairo;
};

// Of an SVG: as wide as the sheet's letters are, whatever font the reader has, and from `begin` on the line
// through `at`.
std::string Canvas::text_element(const Spot& at, std::string_view text, const Lettering& lettering,
                                 double width, double begin) const {
  std::string turn, raised;
  if (lettering.degrees != 0) turn = fmt::format(" rotate({:.6g})", -lettering.degrees);
  if (!lettering.exponent.empty())
    raised = fmt::format("<tspan dy=\"{:.6g}\" font-size=\"{:.6g}\">{}</tspan>", -kRaisedBy * font(),
                         kRaisedSize * font(), escaped(lettering.exponent));
  return fmt::format(
      "<text transform=\"translate({:.6g} {:.6g}){}\" x=\"{:.6g}\" textLength=\"{:.6g}\" "
      "lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\">{}{}</text>\n",
      at.x, at.y, turn, begin, width, lettering.color, escaped(text), raised);
}

Canvas::Canvas(const Paper& paper)
    : paper_(paper), size_{kPointsPerInch * paper.width, kPointsPerInch * paper.height} {
  use_installed_fonts();
  sheet_ = std::make_unique<Sheet>(paper, document_);
}
Canvas::~Canvas() = default;

void Canvas::frame(const Spot& corner, const Spot& size) {
  cairo_translate(sheet_->cairo, corner.x - corner_.x, corner.y - corner_.y);
  corner_ = corner;
  size_ = size;
}

void Canvas::describe(std::string title, std::string text) {
  title_ = std::move(title);
  description_ = std::move(text);
}

double Canvas::text_width(std::string_view text, std::string_view exponent) const {
  return sheet_->advance(text, font()) +
         (exponent.empty() ? 0 : sheet_->advance(exponent, kRaisedSize * font()));
}

void Canvas::text(const Spot& at, std::string_view text, const Lettering& lettering) {
  cairo_t* const cairo = sheet_->cairo;
  const double width = text_width(text, lettering.exponent);
  const double shift = lettering.anchor == Anchor::start ? 0 : lettering.anchor == Anchor::middle ? 0.5 : 1;
  if (paper_.format == PaperFormat::svg) {
    if (!text.empty() || !lettering.exponent.empty())
      texts_ += text_element({corner_.x + at.x, corner_.y + at.y}, text, lettering, width, -shift * width);
    return;
  }
  cairo_save(cairo);
  cairo_translate(cairo, at.x, at.y);
  cairo_rotate(cairo, -lettering.degrees * std::numbers::pi / 180);
  cairo_move_to(cairo, -shift * width, 0);
  sheet_->use(lettering.color, 1);
  cairo_set_font_size(cairo, font());
  cairo_show_text(cairo, std::string(text).c_str());
  if (!lettering.exponent.empty()) {
    cairo_rel_move_to(cairo, 0, -kRaisedBy * font());
    cairo_set_font_size(cairo, kRaisedSize * font());
    cairo_show_text(cairo, std::string(lettering.exponent).c_str());
  }
  cairo_restore(cairo);
  cairo_new_path(cairo);
}

void Canvas::line(std::span<const Spot> spots, const Pen& pen) {
  sheet_->path(spots);
  sheet_->stroke(pen);
}

void Canvas::curve(const Spot& from, const Spot& control, const Spot& to, const Pen& pen) {
  // The cubic curve with the same shape.
  const auto third = [&](const Spot& end) {
    return Spot{end.x + 2.0 / 3 * (control.x - end.x), end.y + 2.0 / 3 * (control.y - end.y)};
  };
  const Spot a = third(from), b = third(to);
  cairo_move_to(sheet_->cairo, from.x, from.y);
  cairo_curve_to(sheet_->cairo, a.x, a.y, b.x, b.y, to.x, to.y);
  sheet_->stroke(pen);
}

void Canvas::fill(std::span<const Spot> corners, std::string_view color, double opacity) {
  sheet_->path(corners);
  sheet_->use(color, opacity);
  cairo_fill(sheet_->cairo);
}

void Canvas::circle(const Spot& middle, double radius, std::string_view fill, const Pen& pen) {
  cairo_new_path(sheet_->cairo);
  cairo_arc(sheet_->cairo, middle.x, middle.y, radius, 0, 2 * std::numbers::pi);
  sheet_->use(fill, 1);
  cairo_fill_preserve(sheet_->cairo);
  sheet_->stroke(pen);
}

void Canvas::polygon(std::span<const Spot> corners, std::string_view fill, const Pen& pen) {
  sheet_->path(corners);
  cairo_close_path(sheet_->cairo);
  sheet_->use(fill, 1);
  cairo_fill_preserve(sheet_->cairo);
  sheet_->stroke(pen);
}

Result<std::string> Canvas::finish() {
  const auto wrong = [](cairo_status_t status) {
    return Error{std::string("the figure cannot be drawn: ") + cairo_status_to_string(status)};
  };
  if (const cairo_status_t status = cairo_status(sheet_->cairo); status != CAIRO_STATUS_SUCCESS)
    return wrong(status);
  if (paper_.format == PaperFormat::png) {
    const cairo_status_t written = cairo_surface_write_to_png_stream(sheet_->surface, append, &document_);
    if (written != CAIRO_STATUS_SUCCESS) return wrong(written);
    add_resolution(document_, paper_.dpi);
  } else {
    if (paper_.format == PaperFormat::pdf) label_pdf(sheet_->surface, title_, description_);
    cairo_surface_finish(sheet_->surface);
    if (const cairo_status_t status = cairo_surface_status(sheet_->surface); status != CAIRO_STATUS_SUCCESS)
      return wrong(status);
  }
  if (paper_.format == PaperFormat::svg) add_texts(document_, paper_, texts_);
  if (paper_.format == PaperFormat::svg && !title_.empty()) label_svg(document_, title_, description_);
  return document_;
}

}  // namespace starling::lab
