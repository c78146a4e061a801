/* A page that was opened from disk may not start a worker, which the search needs. There, a hidden frame of the same page
   stands in for it: it runs the worker's script, and messages go both ways as events. */
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => {
        const event = new MessageEvent("message", { data: structuredClone(data) })
        setTimeout(() => this.receive(event)) // never within the call, as from a real worker
      }
      this.inside.importScripts = (...urls) => Promise.all(urls.map(each => this.load(each)))
      this.load(url).then(() => {
        for (const data of this.waiting) this.send(data)
        this.waiting = null
      })
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script")
        script.src = new URL(url, location.href)
        script.onload = resolve
        script.onerror = reject
        this.inside.document.head.appendChild(script)
      })
    }

    receive(event) {
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.send(data)
    }

    send(data) {
      const copy = this.inside.structuredClone(data) // as between real workers: a copy, made of the frame's own classes
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data: copy }))
    }

    terminate() {
      this.inside.frameElement.remove()
    }
  }
