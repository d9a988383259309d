package cli

import (
	"errors"
	"strings"

	"stepboard/models"
)

// oneLine returns the text of an error on one line. Joined errors, and errors
// with indented lines, have several.
func oneLine(err error) string {
	var text strings.Builder
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case strings.HasSuffix(text.String(), ":"):
			text.WriteByte(' ')
		case text.Len() > 0:
			text.WriteString("; ")
		}
		text.WriteString(line)
	}
	return text.String()
}

// publicMessage returns the text of an error without its code.
func publicMessage(err error) string {
	var known *models.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}
