package cli

import (
	"errors"
	"strings"

	"stepboard/models"
)

// oneLine keeps an error readable where several are joined, or where one comes
// in indented lines.
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

// publicMessage is an error without the code around it.
func publicMessage(err error) string {
	var known *models.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}
