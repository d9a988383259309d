package models

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	maxNickname = 64 // characters
	// maxMarks is the most combining marks that may follow each other. Names in
	// Vietnamese, Thai and Hebrew need two or three; dozens cover the lines above.
	maxMarks = 4
)

// NormalizeName returns a name of a user or a group in the form in which it is stored: in
// Unicode's form C, without spaces at its ends, and with one plain space for each other run of
// spaces. CodeValidationFailed about the location if nobody may have the name.
func NormalizeName(location, name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", Invalid(location, "is not UTF-8")
	}
	name = strings.Join(strings.FieldsFunc(norm.NFC.String(name), IsBlank), " ")
	if message := nicknameFault(name); message != "" {
		return "", Invalid(location, message)
	}
	return name, nil
}

// NameKey returns the text by whose beginning a name is found, whatever its case.
func NameKey(name string) string { return strings.ToLower(norm.NFC.String(name)) }

// nicknameFault returns what is wrong with a name that has no spaces but plain ones; "" if
// nothing is. A name
// must not be invisible, and must not change the text around it on others' screens.
func nicknameFault(name string) string {
	shows, marks := false, 0
	text := []rune(name)
	for at, c := range text {
		switch {
		case unicode.IsControl(c) || unicode.In(c, unicode.Zl, unicode.Zp):
			return "has no control characters and no line breaks"
		case unicode.Is(unicode.Cf, c):
			if !joins(text, at) {
				return "has no invisible characters that format text, such as zero-width ones"
			}
		case unicode.IsMark(c):
			if marks++; marks > maxMarks {
				return "has at most 4 combining marks in a row"
			}
			continue
		case unicode.IsGraphic(c) && c != ' ':
			shows = true
		}
		marks = 0
	}
	if !shows || len(text) > maxNickname {
		return "has 1 to 64 characters, and one or more that show"
	}
	return ""
}

const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
	// emojiStyle is the variation selector after which a character is an emoji.
	emojiStyle = '\ufe0f'
	// virama is the combining class of the marks that join the consonants of Indic scripts.
	virama = 9
	// blackFlag begins the flag of a part of a country, such as Wales. Tags spell which,
	// and lastTag ends them.
	blackFlag, firstTag, lastTag = '\U0001f3f4', '\U000e0020', '\U000e007f'
)

// joins reports whether an invisible character is one that its neighbours need to look right:
// a joiner or non-joiner after a virama, a non-joiner between Arabic letters (both as in RFC
// 5892, appendix A), a joiner between emoji, or a tag of a flag.
func joins(text []rune, at int) bool {
	if at == 0 {
		return false
	}
	before, after := text[at-1], rune(0)
	if at+1 < len(text) {
		after = text[at+1]
	}
	switch c := text[at]; {
	case c >= firstTag && c <= lastTag:
		return spellsFlag(text, at)
	case c != joiner && c != nonJoiner:
		return false
	case norm.NFC.PropertiesString(string(before)).CCC() == virama:
		return unicode.IsLetter(after)
	case c == nonJoiner:
		return unicode.Is(unicode.Arabic, before) && unicode.Is(unicode.Arabic, after)
	default:
		skin := before >= '\U0001f3fb' && before <= '\U0001f3ff'
		return (unicode.Is(unicode.So, before) || before == emojiStyle || skin) && unicode.Is(unicode.So, after)
	}
}

// spellsFlag reports whether the tag at a position belongs to a flag.
func spellsFlag(text []rune, at int) bool {
	spells := func(c rune) bool { return c >= firstTag && c < lastTag }
	begin, end := at-1, at
	for begin > 0 && spells(text[begin]) {
		begin--
	}
	for end < len(text)-1 && spells(text[end]) {
		end++
	}
	return text[begin] == blackFlag && text[end] == lastTag && end-begin > 1
}

// IsBlank reports whether a character is a space of any width, or looks like one.
func IsBlank(c rune) bool {
	switch c {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800': // fillers of Hangul, and Braille without dots
		return true
	default:
		return unicode.Is(unicode.Zs, c)
	}
}

// IsPlainText reports whether a text is UTF-8 without control characters and line breaks, and without those that turn the
// direction of the text around it.
func IsPlainText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool {
		return unicode.IsControl(c) || unicode.In(c, unicode.Zl, unicode.Zp) || c >= '\u202a' && c <= '\u202e' || c >= '\u2066' && c <= '\u2069'
	})
}

// CheckPlainText returns CodeValidationFailed about the location unless a text is plain.
func CheckPlainText(location, text string) error {
	if !IsPlainText(text) {
		return Invalid(location, "is plain text, without control characters and line breaks")
	}
	return nil
}

// Storable returns a text in a form that both databases can store: at most limit bytes of
// it, with U+FFFD in place of NUL and of what is not UTF-8.
func Storable(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
