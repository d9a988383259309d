package directory_test

import (
	"strings"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

func TestProfileRules(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	service := newService(t, env)
	tests := []struct {
		name    string
		profile models.Profile
		ok      bool
	}{
		{"a plain name", models.Profile{Nickname: "Ann"}, true},
		{"64 characters of 4 bytes", models.Profile{Nickname: strings.Repeat("🏃", 64)}, true},
		{"markup and right-to-left text", models.Profile{Nickname: "<script>שלום"}, true},
		{"Vietnamese, Thai, Hindi and vowel points", models.Profile{Nickname: "Nguyễn ปู่ หิ้ว क्षि שָׁלוֹם"}, true},
		{"an emoji with a variation selector", models.Profile{Nickname: "\u2764\ufe0f"}, true},
		{"a Chinese name with an ideographic space", models.Profile{Nickname: "王\u3000小明"}, true},
		{"4 marks in a row", models.Profile{Nickname: "1" + strings.Repeat("\u0323\u0307", 2)}, true},
		{"64 characters once they are composed", models.Profile{Nickname: strings.Repeat("e\u0301", 64)}, true},
		{"a bidi override", models.Profile{Nickname: "Ann\u202egnp"}, false},
		{"a bidi isolate", models.Profile{Nickname: "Ann\u2066"}, false},
		{"zero-width characters", models.Profile{Nickname: "Ann\u200b"}, false},
		{"a zero-width joiner", models.Profile{Nickname: "A\u200dnn"}, false},
		{"a Sinhalese name", models.Profile{Nickname: "\u0dc1\u0dca\u200d\u0dbb\u0dd3"}, true},
		{"a Persian name", models.Profile{Nickname: "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627"}, true},
		{"an emoji of several", models.Profile{Nickname: "\U0001f3f3\ufe0f\u200d\U0001f308 \U0001f469\U0001f3fd\u200d\U0001f680 \U0001f469\u200d\u2764\ufe0f\u200d\U0001f469"}, true},
		{"the flag of Wales", models.Profile{Nickname: "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f"}, true},
		{"a flag without an end", models.Profile{Nickname: "\U0001f3f4\U000e0067\U000e0062"}, false},
		{"a flag with two ends", models.Profile{Nickname: "\U0001f3f4\U000e0067\U000e007f\U000e007f"}, false},
		{"a tag without a flag", models.Profile{Nickname: "\U000e007f"}, false},
		{"two joiners", models.Profile{Nickname: "\U0001f469\u200d\u200d\U0001f680"}, false},
		{"a joiner between letters", models.Profile{Nickname: "\u0639\u0644\u200d\u06cc"}, false},
		{"a joiner after an emoji", models.Profile{Nickname: "\U0001f469\u200d"}, false},
		{"a non-joiner between Latin letters", models.Profile{Nickname: "A\u200cnn"}, false},
		{"a joiner at the end", models.Profile{Nickname: "\u0dc1\u0dca\u200d"}, false},
		{"a byte order mark", models.Profile{Nickname: "\ufeffAnn"}, false},
		{"a soft hyphen", models.Profile{Nickname: "An\u00adn"}, false},
		{"tags", models.Profile{Nickname: "Ann\U000e0041\U000e007f"}, false},
		{"a line separator", models.Profile{Nickname: "Ann\u2028Bob"}, false},
		{"5 marks in a row", models.Profile{Nickname: "1" + strings.Repeat("\u0323\u0307", 2) + "\u0323"}, false},
		{"only fillers", models.Profile{Nickname: "\u3164\u115f\u2800"}, false},
		{"only marks", models.Profile{Nickname: "\u0301\ufe0f"}, false},
		{"only wide spaces", models.Profile{Nickname: "\u3000\u00a0"}, false},
		{"only unassigned characters", models.Profile{Nickname: "\u0378"}, false},
		{"an avatar", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a.png?x=1"}, true},
		{"a cover", models.Profile{Nickname: "Ann", CoverURL: "https://example.com/c.png?x=1"}, true},
		{"a cover of another scheme", models.Profile{Nickname: "Ann", CoverURL: "javascript:alert(1)"}, false},
		{"a cover too long", models.Profile{Nickname: "Ann", CoverURL: "https://example.com/" + strings.Repeat("a", 2048)}, false},
		{"no name", models.Profile{}, false},
		{"only spaces", models.Profile{Nickname: "  "}, false},
		{"65 characters", models.Profile{Nickname: strings.Repeat("a", 65)}, false},
		{"a control character", models.Profile{Nickname: "a\x00b"}, false},
		{"a line break", models.Profile{Nickname: "a\nb"}, false},
		{"no UTF-8", models.Profile{Nickname: "a\xff"}, false},
		{"an avatar of another scheme", models.Profile{Nickname: "Ann", AvatarURL: "javascript:alert(1)"}, false},
		{"an avatar without a host", models.Profile{Nickname: "Ann", AvatarURL: "https:///a.png"}, false},
		{"an avatar with a password", models.Profile{Nickname: "Ann", AvatarURL: "https://ann:secret@example.com/a.png"}, false},
		{"an avatar with a user", models.Profile{Nickname: "Ann", AvatarURL: "https://ann@example.com/a.png"}, false},
		{"an avatar with double quotes", models.Profile{Nickname: "Ann", AvatarURL: `https://example.com/"onload="x`}, false},
		{"an avatar with a quote", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a.png?'x"}, false},
		{"an avatar with angle brackets", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/#<b>"}, false},
		{"an avatar with a space", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a b.png"}, false},
		{"an avatar with a space at its end", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a.png "}, false},
		{"an avatar with a space in its query", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a.png?of=Ann Lee"}, false},
		{"an avatar with a line break", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a.png\n"}, false},
		{"an avatar with a no-break space", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a\u00a0b.png"}, false},
		{"an avatar with letters of other scripts", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/头像.png"}, true},
		{"an avatar with a filler", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a\u3164.png"}, false},
		{"an avatar with a backslash", models.Profile{Nickname: "Ann", AvatarURL: `https://example.com/a\b.png`}, false},
		{"an avatar with them percent-encoded", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a%20b%5C%E5%A4%B4.png?a=b&c=(1,2);d#e"}, true},
		{"an avatar of a numeric host", models.Profile{Nickname: "Ann", AvatarURL: "https://[2001:db8::1]:8443/~ann/a.png"}, true},
		{"a cover with a space", models.Profile{Nickname: "Ann", CoverURL: "https://example.com/c d.png"}, false},
		{"an avatar too long", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/" + strings.Repeat("a", 2048)}, false},
	}
	for _, tt := range tests {
		_, err := service.Put(t.Context(), "ann", tt.profile)
		if tt.ok != (err == nil) || (err != nil && models.CodeOf(err) != models.CodeValidationFailed) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Names that look alike because of their spaces become the same text.
func TestSpacesOfNamesAreNormalized(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Ann Lee", " Ann Lee", "Ann Lee  ", "\u00a0Ann Lee\u00a0", "\u3000Ann\u3000Lee", "Ann  Lee", "Ann\u00a0Lee", "Ann \u2003Lee", "Ann Lee\u3164", "\u2800\u115fAnn Lee \u1160\uffa0"} {
		if got, err := models.NormalizeName("body.name", name); err != nil || got != "Ann Lee" {
			t.Errorf("%q is stored as %q, %v", name, got, err)
		}
	}
	long := strings.Repeat("a", 64)
	if got, err := models.NormalizeName("body.name", "  "+long+" "); err != nil || got != long {
		t.Errorf("spaces at the ends count as characters: %q, %v", got, err)
	}
}

// Two ways to write a name become the same text.
func TestNicknamesAreNormalized(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	service := newService(t, env)
	want := models.Profile{Nickname: "Rémi"}
	if got, err := service.Put(t.Context(), "ann", models.Profile{Nickname: "Re\u0301mi"}); err != nil || got != want {
		t.Errorf("Put returns %q, %v", got, err)
	}
	if got := profileOf(t, service, testenv.Must(service.FindOne(t.Context(), "ann"))); got != want {
		t.Errorf("the user is stored as %q", got)
	}
}
