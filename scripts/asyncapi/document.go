package main

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// document is all that the page shows.
type document struct {
	Title, About string
	Channels     []channel
	Messages     []message
	Files        []message // schemas of what is no message: files, and what stands in a message
}

// channel is a topic, and who sends on it.
type channel struct {
	ID, Address, About string
	From, To           string
	QoS, Retained      string
	Reply              string // the ID of the channel of the answer, or ""
	Parameters         []parameter
	Messages           []string
}

type parameter struct {
	Name, About string
	Values      []string
}

// message is a schema with its examples.
type message struct {
	ID, About, ContentType string
	Schema                 string // its file below schemas/, or "" for one without
	Body                   body
	Examples               []example
}

// example is a message as it may be, or one that is refused: Refusal says why.
type example struct{ Name, Text, Refusal string }

const (
	description = "docs/protocol/asyncapi.yaml"
	suffix      = ".v1.schema.json"
)

// readDocument reads the AsyncAPI document of the repository, and every schema and example.
func readDocument(repository fs.FS) (document, error) {
	root, err := read(repository, description)
	if err != nil {
		return document{}, err
	}
	doc := document{Title: root.child("info").text("title"), About: root.child("info").text("description")}
	for _, member := range root.child("channels") {
		c, err := channelOf(root, plain(member.Key), asNode(member.Value))
		if err != nil {
			return doc, err
		}
		doc.Channels = append(doc.Channels, c)
	}
	taken := map[string]bool{}
	for _, member := range root.child("components").child("messages") {
		m, err := messageOf(repository, plain(member.Key), asNode(member.Value))
		if err != nil {
			return doc, err
		}
		taken[m.Schema] = true
		doc.Messages = append(doc.Messages, m)
	}
	files, err := fs.Glob(repository, "schemas/*"+suffix)
	if err != nil {
		return doc, err
	}
	for _, file := range files {
		if taken[path.Base(file)] {
			continue
		}
		m := message{ID: strings.TrimSuffix(path.Base(file), suffix), ContentType: "application/json", Schema: path.Base(file)}
		if err := m.readFiles(repository); err != nil {
			return doc, err
		}
		doc.Files = append(doc.Files, m)
	}
	return doc, nil
}

func read(repository fs.FS, file string) (node, error) {
	text, err := fs.ReadFile(repository, file)
	if err != nil {
		return nil, err
	}
	n, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}

// channelOf joins a channel and its one operation, which is told from headquarters' side.
func channelOf(root node, id string, n node) (channel, error) {
	c := channel{ID: id, Address: n.text("address"), About: n.text("summary"), From: "headquarters", QoS: "any", Retained: "no"}
	for _, member := range n.child("parameters") {
		p, err := asNode(member.Value).resolve(root)
		if err != nil {
			return c, err
		}
		one := parameter{Name: plain(member.Key), About: p.text("description")}
		for _, value := range p.list("enum") {
			one.Values = append(one.Values, plain(value))
		}
		c.Parameters = append(c.Parameters, one)
	}
	other := "who may read it"
	switch {
	case c.Address == "", strings.Contains(c.Address, "{user}"):
		other = "the user"
	case strings.HasSuffix(c.Address, "/presence"): // people see who is online
	case strings.Contains(c.Address, "/stores/{store}/t"):
		other = "a terminal of the store"
	}
	c.To = other
	for _, member := range n.child("messages") {
		c.Messages = append(c.Messages, plain(member.Key))
	}
	for _, member := range root.child("operations") {
		o := asNode(member.Value)
		if o.child("channel").text("$ref") != "#/channels/"+id {
			continue
		}
		if o.text("action") == "receive" {
			c.From, c.To = other, "headquarters"
		}
		c.Reply = strings.TrimPrefix(o.child("reply").child("channel").text("$ref"), "#/channels/")
		bound := o.child("bindings").child("mqtt")
		if bound.has("qos") {
			c.QoS = bound.text("qos")
		}
		if bound.text("retain") == "true" {
			c.Retained = "yes"
		}
	}
	return c, nil
}

func messageOf(repository fs.FS, id string, n node) (message, error) {
	m := message{ID: id, About: n.text("summary"), ContentType: n.text("contentType")}
	if m.ContentType == "" {
		m.ContentType = "application/json"
	}
	payload := n.child("payload")
	if ref := payload.text("$ref"); ref != "" {
		m.Schema = path.Base(ref)
		return m, m.readFiles(repository)
	}
	var err error
	m.Body, err = readSchema(payload)
	return m, err
}

// readFiles reads the schema of the message and its examples.
func (m *message) readFiles(repository fs.FS) error {
	schema, err := read(repository, "schemas/"+m.Schema)
	if err != nil {
		return err
	}
	if m.Body, err = readSchema(schema); err != nil {
		return fmt.Errorf("%s: %w", m.Schema, err)
	}
	folder := "schemas/examples/" + m.ID
	files, err := fs.Glob(repository, folder+"/*.json")
	if err != nil {
		return err
	}
	var refused []example
	for _, file := range files {
		text, err := fs.ReadFile(repository, file)
		if err != nil {
			return err
		}
		one := example{Name: strings.TrimSuffix(path.Base(file), ".json"), Text: strings.TrimSpace(string(text))}
		refusal, err := fs.ReadFile(repository, strings.TrimSuffix(file, ".json")+".want")
		if err != nil {
			m.Examples = append(m.Examples, one)
			continue
		}
		one.Refusal = strings.TrimSpace(string(refusal))
		refused = append(refused, one)
	}
	m.Examples = append(m.Examples, refused...)
	return nil
}
