package auth

import (
	"maps"
	"strings"
	"testing"
)

func TestParseJAAS(t *testing.T) {
	for _, c := range []struct {
		text  string
		users map[string]string
	}{
		{PlainLoginModule + ` required user_alice="secret" user_admin="x";`, map[string]string{"alice": "secret", "admin": "x"}},
		{PlainLoginModule + " required\n  username='broker' password='b'\n  user_alice='it\"s';\n", map[string]string{"alice": `it"s`}},
		{PlainLoginModule + ` REQUIRED user_a=plain user_b="q\"uo\\te" ;`, map[string]string{"a": "plain", "b": `q"uo\te`}},
		{"// users\n" + PlainLoginModule + ` required /* none yet */;`, map[string]string{}},
		{PlainLoginModule + ` required user_="nobody" user_a.b-c$="1";`, map[string]string{"a.b-c$": "1"}},
		{PlainLoginModule + ` required "user_a b"="1" user_é="2";`, map[string]string{"a b": "1", "é": "2"}},
	} {
		m, err := ParseJAAS(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if m.Name != PlainLoginModule || !maps.Equal(m.PlainUsers(), c.users) {
			t.Errorf("%s: module %s, users %v, want %v", c.text, m.Name, m.PlainUsers(), c.users)
		}
	}
}

func TestParseJAASRefuses(t *testing.T) {
	for _, text := range []string{
		"",
		"   ",
		PlainLoginModule,
		PlainLoginModule + ";",
		PlainLoginModule + ` wanted user_alice="secret";`,
		PlainLoginModule + ` required user_alice="secret"`,
		PlainLoginModule + ` required user_alice;`,
		PlainLoginModule + ` required user_alice=;`,
		PlainLoginModule + ` required user_alice="secret;`,
		PlainLoginModule + ` required user_alice="secret\`,
		PlainLoginModule + " required user_alice=\"sec\nret\";",
		PlainLoginModule + ` required ="secret";`,
		PlainLoginModule + ` required; ` + PlainLoginModule + ` required;`,
		PlainLoginModule + ` required user_alice==secret;`,
		// Quotes that are missing or misplaced put secrets where there should be none.
		PlainLoginModule + ` required user_alice=a secret;`,
		PlainLoginModule + ` required user_alice="a"secret";`,
		PlainLoginModule + ` required user_alice="a"secret"=;`,
		PlainLoginModule + ` "secret";`,
	} {
		m, err := ParseJAAS(text)
		if err == nil {
			t.Errorf("%s: taken as %+v", text, m)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells a secret: %v", text, err)
		}
	}
}

func FuzzParseJAAS(f *testing.F) {
	f.Add(PlainLoginModule + ` required user_alice="secret" user_admin='x\'y';`)
	f.Add("/* */ a optional b=c;//")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseJAAS(text)
		if err == nil && m.Name == "" && !strings.Contains(text, `""`) && !strings.Contains(text, "''") {
			t.Errorf("%q: a module without a name", text)
		}
	})
}
