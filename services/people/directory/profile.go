package directory

import (
	"net/url"
	"strings"
	"unicode"

	"stepboard/models"
)

const maxPictureURL = 2048

// normalized returns a profile in the form in which it is stored: the nickname is
// in Unicode's form C, so that equal names are equal texts. It returns
// CodeValidationFailed if the profile is invalid.
func normalized(p models.Profile) (models.Profile, error) {
	name, err := models.NormalizeName("body.nickname", p.Nickname)
	if err != nil {
		return p, err
	}
	p.Nickname = name
	if message := pictureFault(p.AvatarURL); message != "" {
		return p, models.Invalid("body.avatar_url", message)
	}
	if message := pictureFault(p.CoverURL); message != "" {
		return p, models.Invalid("body.cover_url", message)
	}
	return p, nil
}

// pictureFault returns what is wrong with the address of an avatar or a cover; "" if nothing
// is or if it is empty. Characters that no URL has (RFC 3987) must be percent-encoded, and so must
// quotes, because apps may put the address into a page unescaped.
func pictureFault(address string) string {
	if address == "" {
		return ""
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || len(address) > maxPictureURL:
		return "is an http or https address of at most 2048 bytes"
	case u.User != nil:
		return "has no user and no password"
	case strings.ContainsFunc(address, func(c rune) bool { return !inURL(c) }):
		return "has only the characters of a URL, without spaces, quotes and angle brackets; percent-encode others"
	default:
		return ""
	}
}

// inURL reports whether a character may stand in the address of a picture.
func inURL(c rune) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	case c > unicode.MaxASCII: // browsers encode letters of other scripts
		return unicode.IsGraphic(c) && !models.IsBlank(c)
	default:
		return strings.ContainsRune("-._~:/?#[]@!$&()*+,;=%", c)
	}
}
