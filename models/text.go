package models

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

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
