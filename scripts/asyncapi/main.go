// Command asyncapi writes docs/protocol/index.html: every topic and message of
// docs/protocol/asyncapi.yaml with the fields of its schema and its examples, in one page
// that loads nothing. It does not judge the document; tests/asyncapi does.
package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"flag"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const target = "docs/protocol/index.html"

var (
	//go:embed page.html.tmpl
	source string
	//go:embed page.css
	style string
)

func main() {
	repository := flag.String("repository", ".", "the folder that holds docs/ and schemas/")
	flag.Parse()
	if err := run(*repository); err != nil {
		fmt.Fprintln(os.Stderr, "asyncapi:", err)
		os.Exit(1)
	}
}

func run(repository string) error {
	page, err := render(os.DirFS(repository))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(repository, filepath.FromSlash(target)), page, 0o644) //nolint:gosec // it is for everybody
}

// render makes the page out of the files of the repository. The same files make the same
// bytes.
func render(repository fs.FS) ([]byte, error) {
	doc, err := readDocument(repository)
	if err != nil {
		return nil, fmt.Errorf("cannot read the protocol's description: %w", err)
	}
	style := strings.TrimSpace(style)
	sum := sha256.Sum256([]byte(style))
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(style) }, //nolint:gosec // it is the program's own
	}).Parse(strings.ReplaceAll(source, "STYLE_HASH", base64.StdEncoding.EncodeToString(sum[:])))
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = parsed.Execute(&page, doc)
	return page.Bytes(), err
}
