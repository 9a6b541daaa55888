// Package folders finds headquarters' folders for commands that work on its files
// or with the dispatcher that runs: from its configuration, without checking the
// rest of it, which a repair must not depend on.
package folders

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"

	"muster/configs"
	"muster/internal/files"
	"muster/internal/settings"
)

// Database is the database's name in the data folder.
const Database = "muster.db"

// Folders are those of one headquarters. Identity and Stores may be "".
type Folders struct{ Data, Reports, Identity, Stores, Users string }

// keys are the ones of dispatcher.yaml that name them.
type keys struct {
	Data     string `yaml:"data_folder"`
	Reports  string `yaml:"reports_folder"`
	Stores   string `yaml:"stores_file"`
	Identity struct {
		Folder string `yaml:"folder"`
	} `yaml:"identity"`
	Transport string `yaml:"transport"`
	Broker    struct {
		UsersFile string `yaml:"users_file"`
	} `yaml:"broker"`
	MQTT struct {
		UsersFile string `yaml:"users_file"`
	} `yaml:"mqtt"`
}

// Of reads them from the configuration file, or from the defaults when it is "",
// as the dispatcher does: the environment goes over the file.
func Of(config string) (Folders, error) {
	var k keys
	own, err := configs.FS.ReadFile("dispatcher.yaml")
	if err == nil {
		err = yaml.Unmarshal(own, &k)
	}
	if err != nil {
		return Folders{}, fmt.Errorf("cannot read the embedded configuration: %w", err)
	}
	if config != "" {
		text, err := files.Read(config)
		if err != nil {
			return Folders{}, fmt.Errorf("cannot read the configuration: %w", err)
		}
		text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		if err := settings.CheckSaid(config, text); err != nil {
			return Folders{}, err
		}
		if err := yaml.Unmarshal(text, &k); err != nil {
			return Folders{}, fmt.Errorf("cannot read %s: it is no YAML; dispatcher check-config says where", config)
		}
		for _, path := range []*string{&k.Data, &k.Reports, &k.Stores, &k.Identity.Folder, &k.Broker.UsersFile, &k.MQTT.UsersFile} {
			*path = settings.Resolve(config, *path)
		}
	}
	if err := new(settings.File).Put(&k, settings.FromEnv(os.Environ(), &k)); err != nil {
		return Folders{}, err
	}
	if k.Data == "" {
		return Folders{}, fmt.Errorf("%s names no data_folder: write it there, or leave the key out for the default", config)
	}
	users := k.Broker.UsersFile
	if k.Transport == "mqtt" {
		users = k.MQTT.UsersFile
	}
	return Folders{Data: k.Data, Reports: k.Reports, Identity: k.Identity.Folder, Stores: k.Stores, Users: users}, nil
}

// DatabasePath is the database of the headquarters that a command names: by its data
// folder, or by its configuration. With neither it is the one that serves the defaults
// from this folder; where that has none, the error says what to name.
func DatabasePath(config, data string) (string, error) {
	if data != "" {
		return filepath.Join(data, Database), nil
	}
	own, err := Of(config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(own.Data, Database)
	if _, gone := os.Stat(path); config == "" && errors.Is(gone, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no database at %s, which is where the defaults have it: say whose with -c CONFIG or --data FOLDER", path)
	}
	return path, nil
}
