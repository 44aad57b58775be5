"""A crawl over a site that this program serves itself."""

import http.server
import threading

import scrapy
from scrapy.crawler import CrawlerProcess

PAGES = 60


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # noqa: N802 the base class's name
        n = int(self.path.strip("/") or 0)
        links = "".join(f'<a href="/{m}">{m}</a>' for m in (2 * n + 1, 2 * n + 2) if m < PAGES)
        body = f"<html><h1>page {n}</h1>{links}</html>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


found = []


class Spider(scrapy.Spider):
    name = "pages"

    def __init__(self, start):
        super().__init__()
        self.start_urls = [start]

    def parse(self, response):
        found.append(response.css("h1::text").get())
        yield from response.follow_all(css="a")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
threading.Thread(target=server.serve_forever, daemon=True).start()
process = CrawlerProcess(
    {"LOG_ENABLED": False, "ROBOTSTXT_OBEY": False, "TELNETCONSOLE_ENABLED": False, "DOWNLOAD_DELAY": 0}
)
process.crawl(Spider, start=f"http://127.0.0.1:{server.server_port}/0")
process.start()
print(len(found), sorted(found)[:3])
