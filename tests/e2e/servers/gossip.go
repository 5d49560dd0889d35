// Nodes of a small cluster: an HTTP server with a table of keys, which tells its peers of each change by TCP (gossip with
// versions) and collects garbage all the time.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"
)

type entry struct {
	Value   string
	Version int
}
type rumour struct {
	Key string
	entry
}

var (
	mutex   sync.Mutex
	table   = map[string]entry{}
	changes int
	peers   []chan rumour
)

// Takes the entry over if it is newer than the own one, and tells the peers then.
func learn(news rumour) bool {
	mutex.Lock()
	defer mutex.Unlock()
	if table[news.Key].Version >= news.Version {
		return false
	}
	table[news.Key] = news.entry
	changes++
	for _, peer := range peers {
		select {
		case peer <- news:
		default: // a peer that is slow hears of it another time
		}
	}
	return true
}

func tell(address string, news chan rumour) {
	for {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		out := json.NewEncoder(connection)
		for out.Encode(<-news) == nil {
		}
		connection.Close()
	}
}

func listen(address string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		panic(err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			in := json.NewDecoder(connection)
			var news rumour
			for in.Decode(&news) == nil {
				learn(news)
			}
			connection.Close()
		}()
	}
}

func put(w http.ResponseWriter, r *http.Request) {
	key, value := r.URL.Query().Get("key"), r.URL.Query().Get("value")
	mutex.Lock()
	version := table[key].Version + 1
	mutex.Unlock()
	learn(rumour{key, entry{value, version}})
	garbage := make([][]byte, 64)
	for i := range garbage {
		garbage[i] = make([]byte, 4096)
	}
	fmt.Fprintf(w, "%d\n", version)
}

func get(w http.ResponseWriter, r *http.Request) {
	mutex.Lock()
	found := table[r.URL.Query().Get("key")]
	mutex.Unlock()
	fmt.Fprintf(w, "%s\n", found.Value)
}

// Arguments: the address for clients, the one for peers, the peers'.
func main() {
	runtime.GOMAXPROCS(4)
	go listen(os.Args[2])
	for _, address := range os.Args[3:] {
		news := make(chan rumour, 1024)
		peers = append(peers, news)
		go tell(address, news)
	}
	go func() {
		for {
			runtime.GC()
			time.Sleep(50 * time.Millisecond)
		}
	}()
	http.HandleFunc("/put", put)
	http.HandleFunc("/get", get)
	http.HandleFunc("/stop", func(w http.ResponseWriter, r *http.Request) {
		go func() { time.Sleep(10 * time.Millisecond); os.Exit(0) }()
	})
	panic(http.ListenAndServe(os.Args[1], nil))
}
