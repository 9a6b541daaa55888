// Package redact takes secrets out of text before it leaves a terminal, and out of what headquarters stores in case a
// terminal failed to. One set of rules serves both: package words knows what secrets are called, package find where they
// stand, and this one puts a mark there.
//
// It sees passwords, tokens and keys in settings of any common form (ini, properties, env, JSON, YAML, XML, connection
// strings, URLs, command lines), in comments and in log lines. The form is not asked for: files lie about theirs, and
// one form is quoted inside another. It must never leave part of a secret for the sake of pretty output; where it cannot
// tell how far a secret goes, it takes the longer way. It keeps every line break, so that line numbers stay true, and
// every key, so that a reader sees what was set.
//
// What no rule can see is a secret without a name, in no known form. Known to pass, because a rule for it would take more
// that is no secret than it finds:
//   - values of everyday names: key, sign, sk, p, iv, salt, csrf, license, regcode, mnemonic, pan (in a URL's query, key and
//     sign with a value drawn by lot do not pass);
//   - sentences that tell a password of letters alone, or one below them: "the password is …", "old password …",
//     "password for pos: …", "password is" and the password on the next line;
//   - lines of files that are all secret, whose places have no names: pgpass, htpasswd, shadow, PPP's and SNMP's, and the
//     numbered kinds of Cisco's ("secret 5 …");
//   - a login in base64 under another name (AUTH_BASIC=…), and the value of an HTML input of the type password;
//   - a short user without a password in a URL, and a password there that reads as a port and a path;
//   - the text of a picture, and what is encoded, packed or escaped more than once.
package redact

import (
	"bytes"
	"strings"

	"muster/internal/redact/find"
	"muster/internal/redact/words"
)

// Mark stands where a secret was.
const Mark = find.Mark

// maxPasses bounds how often a text is looked over: what a first pass leaves may, with marks in it, read as another
// secret. Texts that people and programs write are done after the second, which finds nothing.
const maxPasses = 8

// Text returns the text with every secret that it can find replaced by Mark, and how many there were. What Text
// returned once it leaves alone, and the count is 0 then. The time it takes grows with the text and nothing else. It is
// safe for concurrent use.
func Text(text string) (clean string, count int) {
	for range maxPasses {
		names, marks := words.Look(text)
		secrets := find.In(text, names, marks)
		if len(secrets) == 0 {
			return text, count
		}
		count += len(secrets)
		text = rewrite(text, secrets)
	}
	return rewrite(text, []find.Span{{Start: 0, End: len(text)}}), count
}

// maxExcerptBytes bounds how much of a payload is looked over for an excerpt: a log line is not worth more.
const maxExcerptBytes = 16 << 10

// Excerpt returns the start of a payload for a log, free of secrets, in valid UTF-8 and at most limit bytes long.
func Excerpt(payload []byte, limit int) string {
	if limit < maxExcerptBytes && len(payload) > maxExcerptBytes {
		payload = Clip(payload, maxExcerptBytes)
	}
	clean, _ := JSON(payload)
	return string(Clip(bytes.ToValidUTF8(clean, nil), limit))
}

// rewrite replaces the secrets.
func rewrite(text string, secrets []find.Span) string {
	var out strings.Builder
	out.Grow(len(text))
	done := 0
	for _, secret := range secrets {
		out.WriteString(text[done:secret.Start])
		writeMarks(&out, text[secret.Start:secret.End])
		done = secret.End
	}
	out.WriteString(text[done:])
	return out.String()
}

// writeMarks writes one mark a line, so that the text keeps its lines, their indentation and their ends.
func writeMarks(out *strings.Builder, secret string) {
	for i, line := range strings.Split(secret, "\n") {
		if i > 0 {
			out.WriteByte('\n')
		}
		body := strings.TrimSuffix(line, "\r")
		trimmed := strings.TrimLeft(body, " \t")
		out.WriteString(body[:len(body)-len(trimmed)])
		if trimmed != "" {
			out.WriteString(Mark)
		}
		out.WriteString(line[len(body):])
	}
}

// Blocks follows the lines of a file to tell which lie within a private key: an excerpt may show the middle of a key
// without the line that begins it. The zero value is ready; it is not safe for concurrent use.
type Blocks struct{ inside int }

// maxKeyLines bounds a private key whose end never comes: the longest in use have some 150 lines.
const maxKeyLines = 400

// Secret reports whether the line is part of a private key, its first and last line aside.
func (b *Blocks) Secret(line []byte) bool {
	if bytes.Contains(line, []byte("----")) && bytes.Contains(line, []byte("PRIVATE KEY")) {
		b.inside = 0
		if beginsKey(line) {
			b.inside = maxKeyLines
		}
		return false
	}
	if b.inside > 0 {
		b.inside--
		return true
	}
	return false
}

// beginsKey reports whether a line with the words "PRIVATE KEY" begins one and does not end it. OpenSSH and OpenSSL write
// "-----BEGIN ", SSH2 (RFC 4716) "---- BEGIN ".
func beginsKey(line []byte) bool {
	last := func(word string) int {
		return max(bytes.LastIndex(line, []byte("----"+word)), bytes.LastIndex(line, []byte("---- "+word)))
	}
	return last("BEGIN ") > last("END ")
}
